// Splits CUDA C++ into coloured pieces, line by line. It is a reader's aid, not a parser: what
// it does not know stays plain. The front matter in the head comment is shown as TOML.

export type TokenKind = "plain" | "comment" | "string" | "number" | "keyword" | "type" | "builtin" | "directive" | "key";

export interface Token {
  kind: TokenKind;
  text: string;
}

const KEYWORDS = new Set(
  `alignas alignof asm auto break case catch class const consteval constexpr constinit const_cast continue
  decltype default delete do dynamic_cast else enum explicit export extern false final for friend goto if inline
  mutable namespace new noexcept nullptr operator override private protected public register reinterpret_cast
  return sizeof static static_assert static_cast struct switch template this throw true try typedef typename
  union using virtual volatile while
  __global__ __device__ __host__ __shared__ __constant__ __restrict__ __forceinline__ __noinline__ __align__
  __launch_bounds__ __managed__ __grid_constant__`.split(/\s+/),
);

const TYPES =
  /^(?:void|bool|char|short|int|long|float|double|signed|unsigned|size_t|ptrdiff_t|half2?|__half2?|__nv_bfloat162?|__nv_fp8_\w+|dim3|u?int(?:8|16|32|64|ptr)_t|(?:u?char|u?short|u?int|u?long|u?longlong|float|double)[1-4]|uint)$/;

const BUILTINS =
  /^(?:threadIdx|blockIdx|blockDim|gridDim|warpSize|__syncthreads\w*|__syncwarp|__shfl\w*|__ballot_sync|__activemask|__any_sync|__all_sync|__match_\w+|__reduce_\w+|__ldg|__ldcs|__ldcg|__stcs|__threadfence\w*|__popc\w*|__ffs\w*|__clz\w*|__brev\w*|__byte_perm|__f[a-z]+_r[nduz]|__float2\w+|__half2\w+|__h\w+|__expf|__logf|__sinf|__cosf|__fdividef|__cvta\w*|__nanosleep|__trap|atomic[A-Z]\w*|wmma|nvcuda|mma_sync|load_matrix_sync|store_matrix_sync|fill_fragment|cooperative_groups|exp2?f|log2?f|r?sqrtf|fmaf?|fmaxf|fminf|min|max|assert|printf|make_\w+)$/;

const CODE =
  /(\/\/.*)|(\/\*.*?(?:\*\/|$))|("(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*')|(\b0[xX][\da-fA-F']+[uUlL]*|(?:\b\d[\d']*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFuUlLh]*)|([A-Za-z_]\w*)/g;

const TOML = /(#.*)|("(?:[^"\\]|\\.)*"?|'[^']*'?)|(-?\b\d[\d_.eE+-]*)|(\btrue\b|\bfalse\b)/g;

/** The lines of a file as tokens; joined again they are the file. */
export function highlight(source: string): Token[][] {
  let mode: "code" | "comment" | "front" = "code";
  let text = false;
  return source.split("\n").map((line, index) => {
    if (index === 0 && line.startsWith("/*---")) {
      mode = "front";
      return [{ kind: "comment", text: line }];
    }
    if (mode === "front") {
      if (line.trimEnd() === "---*/") {
        mode = "code";
        return [{ kind: "comment", text: line }];
      }
      const wasText = text;
      if (line.split('"""').length % 2 === 0) text = !text;
      return frontMatter(line, wasText);
    }
    if (mode === "comment") {
      const end = line.indexOf("*/");
      if (end < 0) return [{ kind: "comment", text: line }];
      mode = "code";
      const rest = code(line.slice(end + 2));
      if (rest.open) mode = "comment";
      return [{ kind: "comment", text: line.slice(0, end + 2) }, ...rest.tokens];
    }
    const { tokens, open } = code(line);
    if (open) mode = "comment";
    return tokens;
  });
}

/** Tokens of one line of code; `open` when a comment goes on into the next line. */
function code(line: string): { tokens: Token[]; open: boolean } {
  const directive = /^\s*#\s*\w+/.exec(line);
  const tokens: Token[] = directive ? [{ kind: "directive", text: directive[0] }] : [];
  let open = false;
  const rest = directive ? line.slice(directive[0].length) : line;
  tokens.push(
    ...split(rest, CODE, ([whole, lineComment, blockComment, quoted, number]) => {
      if (blockComment !== undefined) open = blockComment.length < 4 || !blockComment.endsWith("*/");
      if (lineComment !== undefined || blockComment !== undefined) return "comment";
      if (quoted !== undefined) return "string";
      if (number !== undefined) return "number";
      return word(whole);
    }),
  );
  return { tokens, open };
}

function word(name: string): TokenKind {
  if (KEYWORDS.has(name)) return "keyword";
  if (TYPES.test(name)) return "type";
  return BUILTINS.test(name) ? "builtin" : "plain";
}

function frontMatter(line: string, insideText: boolean): Token[] {
  if (insideText) return [{ kind: "string", text: line }];
  if (/^\s*\[/.test(line)) return [{ kind: "keyword", text: line }];
  const key = /^\s*[\w.-]+(?=\s*=)/.exec(line);
  const rest = key ? line.slice(key[0].length) : line;
  const values = split(rest, TOML, ([, comment, quoted]) => {
    if (comment !== undefined) return "comment";
    return quoted !== undefined ? "string" : "number";
  });
  return key ? [{ kind: "key", text: key[0] }, ...values] : values;
}

function split(text: string, pattern: RegExp, kindOf: (match: RegExpExecArray) => TokenKind): Token[] {
  const tokens: Token[] = [];
  let end = 0;
  for (const match of text.matchAll(pattern)) {
    if (match.index > end) tokens.push({ kind: "plain", text: text.slice(end, match.index) });
    tokens.push({ kind: kindOf(match), text: match[0] });
    end = match.index + match[0].length;
  }
  if (end < text.length) tokens.push({ kind: "plain", text: text.slice(end) });
  return tokens;
}
