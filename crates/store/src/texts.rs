//! Large texts: sources, evidence, prompts and replies, compressed in a table of their own.
//!
//! Rows of other tables hold the id of a text, so that a query over many candidates reads none. A text
//! that repeats parts of others, as a prompt repeats the sources that it shows, is compressed with
//! those as its dictionary. Texts do not change, except those of conversations that are removed.

use std::cell::RefCell;

use crate::sql::{Value, query_as, query_scalar};
use serde::{Deserialize, Serialize};
use zstd::zstd_safe::{self, CCtx, CParameter, DCtx};

use crate::error::ErrorContext;
use crate::rows::{RowRef, json};
use crate::{Connection, StoreError};

/// The first bytes of compressed content. No UTF-8 text begins with them, so that texts of databases
/// before migration 16 are recognised.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The most bases of one text.
const MOST_BASES: usize = 4;
/// Level of compression, the library's default. Time: about 50 us for a prompt of 16 KiB.
const LEVEL: i32 = zstd::DEFAULT_COMPRESSION_LEVEL;

/// The longest text that is read, bytes, so that a damaged length asks for no more memory.
const MOST_BYTES: usize = 1 << 30;

/// Identity of a stored text.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, sqlx::Type,
)]
#[serde(transparent)]
#[sqlx(transparent)]
pub(crate) struct TextId(i64);

impl TextId {
    /// The number of its row. Texts that were stored later have higher ones.
    pub(crate) fn number(self) -> i64 {
        self.0
    }
}

impl From<TextId> for Value {
    fn from(id: TextId) -> Self {
        Self::from(id.0)
    }
}

impl From<Option<TextId>> for Value {
    fn from(id: Option<TextId>) -> Self {
        Self::from(id.map(|id| id.0))
    }
}

/// Stores a text. `bases` are texts that it repeats parts of. A base that was compressed with others
/// itself is left out, so that reading a text never takes more than its own bases.
pub(crate) async fn put(
    tx: &mut Connection,
    text: &str,
    bases: &[TextId],
) -> Result<TextId, StoreError> {
    let (bases, dictionary) = dictionary(tx, bases).await?;
    let content = compress(text, &dictionary).map_err(|error| unreadable("new", error))?;
    query_scalar("INSERT INTO texts (bases, content) VALUES ($1, $2) RETURNING id")
        .bind(json(&bases))
        .bind(content)
        .fetch_one(tx)
        .await
        .context("store a text")
}

/// Reads a text.
pub(crate) async fn get(connection: &mut Connection, id: TextId) -> Result<String, StoreError> {
    let (bases, content): (String, Vec<u8>) =
        query_as("SELECT bases, content FROM texts WHERE id = $1")
            .bind(id)
            .fetch_one(&mut *connection)
            .await
            .context("read a text")?;
    let bases: Vec<TextId> = RowRef::new("texts", id.0).json("bases", &bases)?;
    let (_, dictionary) = dictionary(connection, &bases).await?;
    decompress(content, &dictionary).map_err(|error| unreadable(id.0, error))
}

/// Reads a text that may be absent.
pub(crate) async fn get_optional(
    connection: &mut Connection,
    id: Option<TextId>,
) -> Result<Option<String>, StoreError> {
    match id {
        Some(id) => get(connection, id).await.map(Some),
        None => Ok(None),
    }
}

/// The texts of those bases that have none themselves, one after the other by id.
async fn dictionary(
    connection: &mut Connection,
    bases: &[TextId],
) -> Result<(Vec<TextId>, Vec<u8>), StoreError> {
    if bases.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    let base = |index: usize| bases.get(index).copied();
    let rows: Vec<(TextId, Vec<u8>)> = query_as(const {
        assert!(MOST_BASES == 4, "one parameter for each");
        "SELECT id, content FROM texts WHERE id IN ($1, $2, $3, $4) AND bases = '[]' ORDER BY id"
    })
    .bind(base(0))
    .bind(base(1))
    .bind(base(2))
    .bind(base(3))
    .fetch_all(connection)
    .await
    .context("read the bases of a text")?;
    let (mut used, mut all) = (Vec::with_capacity(rows.len()), Vec::new());
    for (id, content) in rows {
        let text = decompress(content, &[]).map_err(|error| unreadable(id.0, error))?;
        all.extend_from_slice(text.as_bytes());
        used.push(id);
    }
    Ok((used, all))
}

fn unreadable(row: impl std::fmt::Display, error: std::io::Error) -> StoreError {
    RowRef::new("texts", row).wrong("content", error)
}

/// Contexts of compression and decompression, which each thread creates once: creating them takes longer
/// than a text.
struct Contexts {
    compression: CCtx<'static>,
    decompression: DCtx<'static>,
}

thread_local! {
    static CONTEXTS: RefCell<Contexts> = RefCell::new(Contexts {
        compression: CCtx::create(),
        decompression: DCtx::create(),
    });
}

fn compress(text: &str, dictionary: &[u8]) -> std::io::Result<Vec<u8>> {
    CONTEXTS.with_borrow_mut(|Contexts { compression, .. }| {
        let mut content = Vec::with_capacity(zstd_safe::compress_bound(text.len()));
        compression
            .set_parameter(CParameter::CompressionLevel(LEVEL))
            .and_then(|_| compression.set_parameter(CParameter::ChecksumFlag(true)))
            .and_then(|_| compression.load_dictionary(dictionary))
            .and_then(|_| compression.compress2(&mut content, text.as_bytes()))
            .map_err(failed)?;
        // The bound is larger than the content.
        content.shrink_to_fit();
        Ok(content)
    })
}

fn decompress(content: Vec<u8>, dictionary: &[u8]) -> std::io::Result<String> {
    let bytes = if content.starts_with(&MAGIC) {
        CONTEXTS.with_borrow_mut(|Contexts { decompression, .. }| {
            let length = zstd_safe::get_frame_content_size(&content)
                .map_err(|error| std::io::Error::other(error.to_string()))?
                .and_then(|length| usize::try_from(length).ok())
                .filter(|length| *length <= MOST_BYTES)
                .ok_or_else(|| std::io::Error::other("the frame states no usable length"))?;
            let mut bytes = Vec::with_capacity(length);
            decompression
                .load_dictionary(dictionary)
                .and_then(|_| decompression.decompress(&mut bytes, &content))
                .map_err(failed)?;
            Ok::<_, std::io::Error>(bytes)
        })?
    } else {
        content
    };
    String::from_utf8(bytes)
        .map_err(|error| std::io::Error::new(std::io::ErrorKind::InvalidData, error))
}

fn failed(code: zstd_safe::ErrorCode) -> std::io::Error {
    std::io::Error::other(zstd_safe::get_error_name(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_as_it_was_written() {
        let dictionary = "a line that both have\n".repeat(9);
        for text in ["", "(", "short", &format!("{dictionary}and one more")] {
            for dictionary in ["", &dictionary] {
                let dictionary = dictionary.as_bytes();
                let content = compress(text, dictionary).unwrap();
                assert_eq!(decompress(content, dictionary).unwrap(), text);
            }
        }
    }

    #[test]
    fn another_dictionary_is_an_error_and_no_other_text() {
        let text = "__global__ void k(float* y) { y[threadIdx.x] = 1.0f; }\n".repeat(9);
        let content = compress(&text, text.as_bytes()).unwrap();
        let other = text.replace("1.0f", "2.0f");
        assert!(decompress(content, other.as_bytes()).is_err());
    }
}
