//! The judge: from facts to a verdict, as pure functions called by the supervisor after each
//! stage. The first stage that has something to say ends the evaluation.
