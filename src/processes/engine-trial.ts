/** Tries an engine before it is put in use: it says its version, loads a small model as every model here is loaded, and answers. */
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { messageOf } from '../domain/error.ts'
import { IDLE_MS, type ProcessSpec } from '../domain/model-server.ts'
import type { Environment } from '../domain/snapshot.ts'
import { type Launched, launch, runGuarded } from './child.ts'
import { toCommand } from './command.ts'
import { ask, findFreePort, lookAt } from './engine.ts'

interface Trial {
  /** Where the small model may be for a while. */
  folder: string
  environment: Environment
}

const VERSION_MS = 30_000
/** With a graphics card the first load may take long. */
const READY_MS = 120_000
const LOOK_MS = 50
const ANSWER_MS = 60_000
const CONTEXT = 256
/** Of what a program has said, and of that for an administrator. */
const [MOST_KEPT, MOST_SAID] = [10_000, 300]

/** Resolves to the version that it says. Throws an Error whose message ends a sentence. */
export async function tryOut(program: string, trial: Trial): Promise<string> {
  const version = await askVersion(program, trial)
  const model = join(trial.folder, `.trial-${process.pid}.gguf`)
  try {
    writeFileSync(model, makeTinyModel(), { mode: 0o600 })
    await serveOnce(program, model, trial)
  } finally {
    rmSync(model, { force: true })
  }
  return version
}

async function askVersion(program: string, { environment }: Trial): Promise<string> {
  let said = ''
  const { code, how, isLate } = await runGuarded([program, '--version'], {
    environment: { PATH: environment.PATH ?? '' },
    secret: null,
    write: (text) => (said = toKept(said + text)),
    mostMs: VERSION_MS,
  })
  if (isLate) throw new Error(`its --version had not ended after ${VERSION_MS / 1_000} s`)
  if (code !== 0) throw new Error(toLastLine(said) || `its --version ${how}`)
  return /version: (.+)/.exec(said)?.[1]?.slice(0, 100) ?? 'unknown'
}

async function serveOnce(program: string, model: string, { environment }: Trial): Promise<void> {
  const words = toCommand({
    ...{ model, projector: null, context: CONTEXT, slots: 1, cores: 2, makesEmbeddings: false },
    device: null,
  })
  const spec: ProcessSpec = {
    ...{ command: [program, ...words.slice(1)], stopCommand: null, health: '/health', idleMs: IDLE_MS },
    ...{ memoryBytes: null, device: null, pin: false, preload: false, startMs: READY_MS, hash: '' },
  }
  let said = ''
  const filling = { port: findFreePort(), key: crypto.randomUUID(), slug: 'local/trial' }
  const server = launch(spec, filling, {
    environment,
    owner: null,
    write: (text) => (said = toKept(said + text)),
  })
  try {
    await untilReady(server, spec)
    await requireAnswer(server)
  } catch (error) {
    // The rest of what it says comes with its end.
    const isOver = server.ended !== null
    server.signal('SIGKILL')
    await server.exited
    const why = messageOf(error)
    throw new Error(isOver ? toLastLine(said) || why : why)
  } finally {
    server.signal('SIGKILL')
    await server.exited
  }
}

async function untilReady(server: Launched, spec: ProcessSpec): Promise<void> {
  const endMs = performance.now() + READY_MS
  while (server.ended === null) {
    const { state } = await lookAt(server, spec)
    // An older one may not say which model it has.
    if (state === 'ready' || state === 'unsure') return
    if (state === 'foreign') throw new Error('another server answers in its place')
    if (performance.now() > endMs) throw new Error(`it has not loaded a small model within ${READY_MS / 1_000} s`)
    await Bun.sleep(LOOK_MS)
  }
  throw new Error(`it ${server.ended}`)
}

async function requireAnswer(server: Launched): Promise<void> {
  const body = JSON.stringify({ messages: [{ role: 'user', content: 'hello' }], max_tokens: 1 })
  const { status } = await ask(server, '/v1/chat/completions', { body, ms: ANSWER_MS })
  if (status !== 200) throw new Error(`it answered ${status} to a small model's first question`)
}

const toKept = (said: string) => said.slice(-MOST_KEPT)

const toLastLine = (text: string) => text.trim().split('\n').at(-1)?.slice(0, MOST_SAID) ?? ''

const WIDTH = 64
const ALIGNMENT = 32
const [F32, U32, I32, TEXT, LIST] = [6, 4, 5, 8, 9]
/** Kinds of tokens. */
const [NORMAL, CONTROL] = [1, 3]

/** The 256 bytes as the characters that stand for them, as GPT-2 has them, one pair of them, and an end. */
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
    // Each is a multiple of the alignment.
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
