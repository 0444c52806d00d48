//! The OpenTelemetry trace of a candidate: one for each, from its prompt to its commit. The ids follow
//! from the candidate's, so that service and workers agree on them without asking each other.

use crate::digest::Digest;
use crate::id::CandidateId;

/// The id of a trace, 16 bytes.
pub fn trace_id(candidate: CandidateId) -> [u8; 16] {
    candidate.uuid().into_bytes()
}

/// The id of the span that all other spans of a candidate are below, 8 bytes.
pub fn root_span_id(candidate: CandidateId) -> [u8; 8] {
    let (_, low) = candidate.uuid().as_u64_pair();
    low.to_be_bytes()
}

/// The id of a further span. `name` tells it from the candidate's others. The same span always has
/// the same id, so that one that is sent twice is shown once.
pub fn span_id(candidate: CandidateId, name: &str) -> [u8; 8] {
    let digest = Digest::of_parts([candidate.uuid().as_bytes().as_slice(), name.as_bytes()]);
    let mut id = [0; 8];
    id.copy_from_slice(&digest.bytes()[..8]);
    id
}

/// The header `traceparent` of W3C's Trace Context for work that is done for a candidate.
pub fn traceparent(candidate: CandidateId) -> String {
    let span = u64::from_be_bytes(root_span_id(candidate));
    format!("00-{}-{span:016x}-01", candidate.uuid().simple())
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn ids_follow_from_the_candidate() {
        let candidate =
            CandidateId::from(Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0102));
        assert_eq!(
            traceparent(candidate),
            "00-01900000000070008000000000000102-8000000000000102-01"
        );
        assert_eq!(root_span_id(candidate), [0x80, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(span_id(candidate, "queue"), span_id(candidate, "queue"));
        assert_ne!(span_id(candidate, "queue"), span_id(candidate, "evaluate"));
    }
}
