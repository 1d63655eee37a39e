/** A 200 kB model that llama-server can run. */
const WIDTH = 64
const ALIGNMENT = 32
const [F32, U32, I32, TEXT, LIST] = [6, 4, 5, 8, 9]
/** Kinds of tokens. */
const [NORMAL, CONTROL] = [1, 3]

/** The 256 bytes as GPT-2's characters, one merged pair, and an end token. */
function toTokens(): string[] {
  let next = 256
  const bytes = Array.from({ length: 256 }, (_, byte) => {
    const isItself = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174
    return String.fromCodePoint(isItself ? byte : next++)
  })
  return [...bytes, 'ab', '<|end|>']
}

export function makeTinyModel(): Uint8Array {
  const tokens = toTokens()
  const end = tokens.length - 1
  const u32 = (n: number) => toBytes(4, (view) => view.setUint32(0, n, true))
  const u64 = (n: number) => toBytes(8, (view) => view.setBigUint64(0, BigInt(n), true))
  const f32 = (n: number) => toBytes(4, (view) => view.setFloat32(0, n, true))
  const text = (said: string) => {
    const bytes = new TextEncoder().encode(said)
    return Buffer.concat([u64(bytes.length), bytes])
  }
  const list = (type: number, items: Uint8Array[]) => Buffer.concat([u32(type), u64(items.length), ...items])
  const number = (key: string, n: number) => Buffer.concat([text(key), u32(U32), u32(n)])
  const word = (key: string, said: string) => Buffer.concat([text(key), u32(TEXT), text(said)])
  const values = [
    word('general.architecture', 'llama'),
    word('general.name', 'trial'),
    number('llama.vocab_size', tokens.length),
    number('llama.context_length', 512),
    number('llama.embedding_length', WIDTH),
    number('llama.block_count', 1),
    number('llama.feed_forward_length', WIDTH),
    number('llama.attention.head_count', 1),
    number('llama.attention.head_count_kv', 1),
    number('llama.rope.dimension_count', WIDTH),
    Buffer.concat([text('llama.attention.layer_norm_rms_epsilon'), u32(F32), f32(1e-5)]),
    word('tokenizer.ggml.model', 'gpt2'),
    word('tokenizer.ggml.pre', 'gpt-2'),
    Buffer.concat([text('tokenizer.ggml.tokens'), u32(LIST), list(TEXT, tokens.map(text))]),
    Buffer.concat([
      text('tokenizer.ggml.token_type'),
      u32(LIST),
      list(
        I32,
        tokens.map((_, n) => u32(n === end ? CONTROL : NORMAL)),
      ),
    ]),
    Buffer.concat([text('tokenizer.ggml.merges'), u32(LIST), list(TEXT, [text('a b')])]),
    number('tokenizer.ggml.bos_token_id', end),
    number('tokenizer.ggml.eos_token_id', end),
    word('tokenizer.chat_template', "{% for message in messages %}{{ message['content'] }}{% endfor %}"),
  ]
  const matrices = ['attn_q', 'attn_k', 'attn_v', 'attn_output', 'ffn_gate', 'ffn_up', 'ffn_down']
  const tensors: [name: string, dimensions: number[], fill: number][] = [
    ['token_embd.weight', [WIDTH, tokens.length], 0],
    ['output_norm.weight', [WIDTH], 1],
    ['blk.0.attn_norm.weight', [WIDTH], 1],
    ['blk.0.ffn_norm.weight', [WIDTH], 1],
    ...matrices.map((name): [string, number[], number] => [`blk.0.${name}.weight`, [WIDTH, WIDTH], 0]),
  ]
  let offset = 0
  const infos = tensors.map(([name, dimensions]) => {
    const at = offset
    // The size of each is a multiple of the alignment.
    offset += dimensions.reduce((product, n) => product * n, 4)
    return Buffer.concat([text(name), u32(dimensions.length), ...dimensions.map(u64), u32(0), u64(at)])
  })
  const header = Buffer.concat([
    ...[new TextEncoder().encode('GGUF'), u32(3), u64(tensors.length), u64(values.length)],
    ...[...values, ...infos],
  ])
  const padding = new Uint8Array((ALIGNMENT - (header.length % ALIGNMENT)) % ALIGNMENT)
  const data = tensors.map(([, dimensions, fill]) => {
    const numbers = new Float32Array(dimensions.reduce((product, n) => product * n, 1)).fill(fill)
    return new Uint8Array(numbers.buffer)
  })
  return Buffer.concat([header, padding, ...data])
}

function toBytes(length: number, write: (view: DataView) => void): Uint8Array {
  const view = new DataView(new ArrayBuffer(length))
  write(view)
  return new Uint8Array(view.buffer)
}
