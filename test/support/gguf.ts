/** Small GGUF files: real headers and a few bytes of weights. */

type Value = string | number | boolean | readonly string[] | readonly number[]

export interface GgufParts {
  version?: number
  values?: Record<string, Value>
  /** Names of tensors, 32 bytes each. */
  tensors?: readonly string[]
}

const ALIGNMENT = 32

export const CHAT: Record<string, Value> = {
  'general.architecture': 'llama',
  'general.name': 'Tiny Chat',
  'general.file_type': 15,
  'llama.context_length': 8_192,
  'llama.block_count': 2,
  'llama.embedding_length': 64,
  'llama.attention.head_count': 4,
  'llama.attention.head_count_kv': 2,
  'tokenizer.ggml.model': 'gpt2',
  'tokenizer.ggml.tokens': ['a', 'b', 'c'],
  'tokenizer.chat_template': '{% for m in messages %}{{ m.content }}{% endfor %}{% if tools %}{{ tools }}{% endif %}',
}

export const PROJECTOR: Record<string, Value> = {
  'general.architecture': 'clip',
  'general.type': 'mmproj',
  'clip.has_vision_encoder': true,
}

export function makeGguf({
  version = 3,
  values = CHAT,
  tensors = ['token_embd.weight', 'output.weight'],
}: GgufParts = {}): Uint8Array {
  const parts: Uint8Array[] = []
  const number = (bytes: number, write: (view: DataView) => void) => {
    const view = new DataView(new ArrayBuffer(bytes))
    write(view)
    parts.push(new Uint8Array(view.buffer))
  }
  const u32 = (n: number) => number(4, (view) => view.setUint32(0, n, true))
  const u64 = (n: number) => number(8, (view) => view.setBigUint64(0, BigInt(n), true))
  const text = (said: string) => {
    const bytes = new TextEncoder().encode(said)
    u64(bytes.length)
    parts.push(bytes)
  }
  const typeOf = (said: Value) =>
    typeof said === 'string' ? 8 : typeof said === 'boolean' ? 7 : typeof said === 'number' ? 4 : 9
  const write = (said: Value) => {
    if (typeof said === 'string') text(said)
    else if (typeof said === 'boolean') number(1, (view) => view.setUint8(0, said ? 1 : 0))
    else if (typeof said === 'number') u32(said)
    else {
      u32(typeOf(said[0] ?? ''))
      u64(said.length)
      for (const one of said) write(one)
    }
  }
  parts.push(new TextEncoder().encode('GGUF'))
  u32(version)
  u64(tensors.length)
  u64(Object.keys(values).length)
  for (const [key, said] of Object.entries(values)) {
    text(key)
    u32(typeOf(said))
    write(said)
  }
  for (const [index, name] of tensors.entries()) {
    text(name)
    u32(1)
    u64(8)
    u32(0)
    u64(index * ALIGNMENT)
  }
  const header = parts.reduce((sum, part) => sum + part.length, 0)
  const padding = (ALIGNMENT - (header % ALIGNMENT)) % ALIGNMENT
  return Buffer.concat([...parts, new Uint8Array(padding + tensors.length * ALIGNMENT)])
}
