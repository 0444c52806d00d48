//! Single sign-on where it fails; tests/browser/sso.test.js signs in with a provider.

use axum::http::{Request, StatusCode};
use server::http::sso::{Settings, SingleSignOn};

use super::service::Service;

const BEGIN: &str = "/api/v1/session/sso";

/// A service whose provider cannot be reached.
async fn service() -> Service {
    let folder = tempfile::tempdir().unwrap();
    let text = "issuer = \"http://127.0.0.1:9\"\nclient_id = \"kernelwright\"\n\
                address = \"http://127.0.0.1:8787\"\nallow = []\n";
    std::fs::write(folder.path().join("sso.toml"), text).unwrap();
    let settings = Settings::read(None, folder.path()).unwrap().unwrap();
    Service::with_sso(Some(SingleSignOn::new(settings))).await
}

#[tokio::test]
async fn a_provider_that_cannot_be_used_leads_back_to_the_sign_in_page() {
    let service = service().await;
    let session = service.get("/api/v1/session").await;
    assert!(
        session.body.contains("\"sso\":\"127.0.0.1\""),
        "{}",
        session.body
    );
    let answer = service.get(BEGIN).await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER);
    assert_eq!(answer.header("location"), "/?sso=provider");
    let kept = "kernelwright-sso=state.nonce.verifier";
    for (query, cookie, location) in [
        // Without the cookie of the browser that began, or with another state.
        ("?code=a&state=state", "", "/?sso=interrupted"),
        ("?code=a&state=other", kept, "/?sso=interrupted"),
        ("?code=a", kept, "/?sso=interrupted"),
        ("?code=a&state=", "kernelwright-sso=..", "/?sso=interrupted"),
        (
            "?error=access_denied&state=state",
            kept,
            "/?sso=interrupted",
        ),
        ("?code=a&state=state", kept, "/?sso=provider"),
    ] {
        let request = Request::get(format!("{BEGIN}/callback{query}"))
            .header("cookie", cookie)
            .body(axum::body::Body::empty())
            .unwrap();
        let answer = service.send(request).await;
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{query}");
        assert_eq!(answer.header("location"), location, "{query}");
        let cookies = answer.headers.get_all("set-cookie").iter();
        let cookies = cookies
            .map(|cookie| cookie.to_str().unwrap())
            .collect::<Vec<_>>();
        assert_eq!(
            cookies,
            ["kernelwright-sso=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax"]
        );
    }
}

#[tokio::test]
async fn a_service_without_single_sign_on_says_so() {
    let service = Service::with_sso(None).await;
    let session = service.get("/api/v1/session").await;
    assert!(!session.body.contains("sso"), "{}", session.body);
    assert_eq!(service.get(BEGIN).await.status, StatusCode::NOT_FOUND);
}

#[test]
fn settings_that_are_named_must_be_there() {
    let folder = tempfile::tempdir().unwrap();
    assert!(Settings::read(None, folder.path()).unwrap().is_none());
    let named = folder.path().join("other.toml");
    let refused = Settings::read(Some(&named), folder.path()).unwrap_err();
    assert!(refused.to_string().contains("other.toml"), "{refused}");
}
