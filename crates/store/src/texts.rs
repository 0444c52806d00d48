//! Large texts: sources, evidence, prompts and replies, compressed in a table of their own.
//!
//! Rows of other tables hold the id of a text, so that a query over many candidates reads none. A text
//! that repeats parts of others, as a prompt repeats the sources that it shows, is compressed with
//! those as its dictionary. Texts never change and are never removed.

use std::io::{Read, Write};

use crate::sql::{Value, query_as, query_scalar};
use serde::{Deserialize, Serialize};

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

/// Identity of a stored text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, sqlx::Type)]
#[serde(transparent)]
#[sqlx(transparent)]
pub(crate) struct TextId(i64);

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

fn compress(text: &str, dictionary: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = zstd::Encoder::with_dictionary(Vec::new(), LEVEL, dictionary)?;
    encoder.include_checksum(true)?;
    encoder.set_pledged_src_size(Some(text.len() as u64))?;
    encoder.write_all(text.as_bytes())?;
    encoder.finish()
}

fn decompress(content: Vec<u8>, dictionary: &[u8]) -> std::io::Result<String> {
    let bytes = if content.starts_with(&MAGIC) {
        let mut bytes = Vec::new();
        zstd::Decoder::with_dictionary(content.as_slice(), dictionary)?.read_to_end(&mut bytes)?;
        bytes
    } else {
        content
    };
    String::from_utf8(bytes)
        .map_err(|error| std::io::Error::new(std::io::ErrorKind::InvalidData, error))
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
