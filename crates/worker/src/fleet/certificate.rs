//! Remedies for a service's certificate that a client does not accept.

use std::error::Error;

use domain::causes::with_causes;

const OTHER_AUTHORITY: &str = "pass the certificate of the authority that signed it with --ca FILE; with --ca, check that it is the \
    right one";

/// Remedies by a part of the TLS library's message. Its error type is not part of this crate's
/// dependencies, and tests with real handshakes hold these words.
const REMEDIES: [(&str, &str); 5] = [
    (
        "certificate expired",
        "renew the service's certificate, which it reads again by itself; or set this machine's clock, if it is \
         ahead",
    ),
    (
        "certificate not valid yet",
        "set this machine's clock, if it is behind; or use a certificate that is valid already",
    ),
    ("UnknownIssuer", OTHER_AUTHORITY),
    // The authority has the name of the right one and another key.
    ("BadSignature", OTHER_AUTHORITY),
    (
        "not valid for name",
        "use a name in the address that the certificate has, or a certificate for this name",
    ),
];

/// The remedy for an error of a connection; none if the certificate is not its cause.
pub fn remedy(error: &dyn Error) -> Option<&'static str> {
    let text = with_causes(error);
    let mut remedies = REMEDIES.iter();
    remedies
        .find(|(part, _)| text.contains(part))
        .map(|(_, remedy)| *remedy)
}
