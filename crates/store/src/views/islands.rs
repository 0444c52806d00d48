//! Islands of a run's candidates. They follow from the candidates' positions, so no row holds them.

use std::collections::HashMap;

use crate::sql::{query_as, query_scalar};
use domain::api::RunRequest;
use domain::id::RunId;
use domain::search::{Membership, Operator};

use crate::error::ErrorContext;
use crate::rows::RowRef;
use crate::{Connection, StoreError};

/// Finds the islands of one run's candidates.
pub(super) struct Islands {
    run: RunId,
    /// The run's seed; none if its method keeps no islands.
    seed: Option<u64>,
    known: HashMap<u32, Option<u8>>,
}

impl Islands {
    /// Reads the run's method and seed.
    pub(super) async fn of(view: &mut Connection, run: RunId) -> Result<Self, StoreError> {
        let request: Option<String> = query_scalar("SELECT request FROM runs WHERE id = $1")
            .bind(run.uuid())
            .fetch_optional(view)
            .await
            .context("read a run's method")?;
        let request = request.ok_or_else(|| StoreError::Unknown {
            subject: "run",
            id: run.to_string(),
        })?;
        let request: RunRequest = RowRef::new("runs", run).json("request", &request)?;
        Ok(Self {
            run,
            seed: request.method.keeps_islands().then_some(request.seed),
            known: HashMap::new(),
        })
    }

    /// Returns true if the run's method keeps islands.
    pub(super) fn are_kept(&self) -> bool {
        self.seed.is_some()
    }

    /// The island of a candidate with this primary parent. A candidate that belongs to its parent's
    /// island costs a query for each ancestor of which that is true, and which was not asked for before.
    pub(super) async fn find(
        &mut self,
        view: &mut Connection,
        ordinal: u32,
        parent: Option<u32>,
        operator: &Operator,
    ) -> Result<Option<u8>, StoreError> {
        let Some(seed) = self.seed else {
            return Ok(None);
        };
        let mut followed = vec![ordinal];
        let (mut parent, mut membership) = (parent, Membership::of(seed, ordinal, operator));
        let island = loop {
            match (membership, parent) {
                (Membership::Island(island), _) => break Some(island),
                (Membership::None, _) | (Membership::OfParent, None) => break None,
                (Membership::OfParent, Some(above)) => {
                    if let Some(known) = self.known.get(&above) {
                        break *known;
                    }
                    let operator;
                    (parent, operator) = self.ancestor(view, above).await?;
                    membership = Membership::of(seed, above, &operator);
                    followed.push(above);
                }
            }
        };
        self.known
            .extend(followed.into_iter().map(|ordinal| (ordinal, island)));
        Ok(island)
    }

    /// The primary parent and the operator of a candidate.
    async fn ancestor(
        &self,
        view: &mut Connection,
        ordinal: u32,
    ) -> Result<(Option<u32>, Operator), StoreError> {
        let (parent, operator): (Option<i64>, String) = query_as(
            "SELECT parent_ordinal, operator FROM candidates WHERE run = $1 AND ordinal = $2",
        )
        .bind(self.run.uuid())
        .bind(i64::from(ordinal))
        .fetch_one(view)
        .await
        .context("find a candidate's parent")?;
        let row_ref = RowRef::new("candidates", ordinal);
        let parent = parent.map(|parent| row_ref.number("parent_ordinal", parent));
        Ok((parent.transpose()?, row_ref.json("operator", &operator)?))
    }
}
