//! The notice that a spot machine of Google Cloud is about to be taken, from the machine's metadata server.

use std::time::Duration;

use reqwest::Client;
use tokio_util::sync::CancellationToken;

/// The variable that names another metadata server, as Google's own libraries read it.
const HOST: &str = "GCE_METADATA_HOST";
const DEFAULT_HOST: &str = "metadata.google.internal";
const PATH: &str = "computeMetadata/v1/instance/preempted";
/// The time for which the metadata server holds a request open.
const WAIT_SECONDS: u64 = 60;
/// The time after which such a request has failed.
const TIMEOUT: Duration = Duration::from_secs(WAIT_SECONDS + 15);
/// The pause after a request that failed.
const PAUSE: Duration = Duration::from_secs(5);

/// Stops a worker when its machine is about to be taken, about 30 s before it is.
pub(super) async fn watch(shutdown: CancellationToken) {
    let host = std::env::var(HOST).unwrap_or_else(|_| DEFAULT_HOST.to_owned());
    let http = Client::builder()
        .no_proxy()
        .tls_certs_only([])
        .timeout(TIMEOUT)
        .build()
        .expect("unencrypted requests need no certificates");
    let taken = until_taken(&http, &host);
    if shutdown.run_until_cancelled(taken).await.is_some() {
        tracing::info!("this machine is about to be taken; a job under way is handed back");
        shutdown.cancel();
    }
}

/// Waits until the metadata server says that the machine is taken.
async fn until_taken(http: &Client, host: &str) {
    let mut last = None;
    let mut warned = false;
    loop {
        match ask(http, host, last.as_deref()).await {
            Ok((true, _)) => return,
            Ok((false, version)) => {
                warned = false;
                last = version;
            }
            Err(error) => {
                // Once, because the server may be away for long.
                if !warned {
                    let error = anyhow::Error::new(error);
                    tracing::warn!(
                        "failed to ask {host} whether this machine is taken: {error:#}; trying again"
                    );
                }
                warned = true;
                last = None;
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Asks once. With the version of the last answer, the server answers when there is another one.
async fn ask(
    http: &Client,
    host: &str,
    last: Option<&str>,
) -> Result<(bool, Option<String>), reqwest::Error> {
    let mut url = format!("http://{host}/{PATH}");
    if let Some(last) = last {
        url += &format!("?wait_for_change=true&timeout_sec={WAIT_SECONDS}&last_etag={last}");
    }
    let request = http.get(url).header("Metadata-Flavor", "Google");
    let answer = request.send().await?.error_for_status()?;
    let version = answer.headers().get("etag");
    let version = version.and_then(|etag| etag.to_str().ok());
    let version = version.map(str::to_owned);
    let taken = answer.text().await?.trim() == "TRUE";
    if version.is_none() && !taken {
        // A server that does not say versions would be asked without a pause.
        tokio::time::sleep(PAUSE).await;
    }
    Ok((taken, version))
}
