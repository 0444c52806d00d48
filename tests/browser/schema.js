// Holds values of the stand-in against the service's own description of its API.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

import { Ajv2020 } from "ajv/dist/2020.js";

const api = JSON.parse(readFileSync(new URL("../../crates/server/openapi.json", import.meta.url), "utf8"));
const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true });
ajv.addSchema(api, "api");

export function assertSpeaks(schema, values) {
  const validate = ajv.getSchema(`api#/components/schemas/${schema}`);
  assert.ok(values.length > 0, `there is a ${schema} to look at`);
  for (const value of values) {
    assert.ok(validate(value), `${schema}: ${ajv.errorsText(validate.errors)} in ${JSON.stringify(value).slice(0, 400)}`);
    assert.deepEqual(unknown(schema, value), [], `${schema} has no such property`);
  }
}

/** Names of a value that its schema does not know; a misspelt optional property is one. */
function unknown(schema, value) {
  const known = new Set(properties(api.components.schemas[schema]));
  return Object.keys(value).filter((name) => !known.has(name));
}

function properties(schema) {
  if (schema.$ref) return properties(api.components.schemas[schema.$ref.split("/").at(-1)]);
  return [...Object.keys(schema.properties ?? {}), ...[...(schema.allOf ?? []), ...(schema.oneOf ?? [])].flatMap(properties)];
}
