//! From counters to a modelled time on a named device, labelled as modelled.
