/** Counting on its thread: counted and estimated content, and start and stop of the thread. */
import { afterAll, afterEach, expect, test } from 'bun:test'
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import type { CanonicalRequest } from '../../src/domain/request.ts'
import { NO_USAGE } from '../../src/domain/usage.ts'
import { type CapturedOutput, type Counter, type CounterOptions, createCounter } from '../../src/tokens/count.ts'
import { estimate } from '../../src/tokens/estimate.ts'

const WORKER = new URL('../../src/tokens/count-worker.ts', import.meta.url).href

/** For tests that don't concern the thread. */
const plain = createCounter({ timeoutMs: 30_000 })
afterAll(() => plain.close())

let counter: Counter | undefined
let workers: Worker[]
/** Counts on the real thread, and records each start. */
function open(options: CounterOptions = {}) {
  workers = []
  const createWorker = () => {
    const worker = new Worker(WORKER)
    workers.push(worker)
    return worker
  }
  counter = createCounter({ createWorker, timeoutMs: 30_000, ...options })
  return counter
}
afterEach(() => counter?.close())

const ask = (content: string): CanonicalRequest => ({ model: 'm', messages: [{ role: 'user', content }] })
const heard = (answer: string, more: Partial<CapturedOutput> = {}): CapturedOutput => ({
  answer: [answer],
  reasoning: [],
  audioChars: 0,
  moreAnswer: 0,
  moreReasoning: 0,
  ...more,
})
const ended = (worker: Worker | undefined) =>
  new Promise<void>((resolve) => worker?.addEventListener('close', () => resolve()))

/** Frame and role of a message, and the start of the response. */
const FRAME = 4 + 3

test('counts the example chat of the published formula correctly', async () => {
  const messages: CanonicalRequest['messages'] = [
    {
      role: 'system',
      content: 'You are a helpful, pattern-following assistant that translates corporate jargon into plain English.',
    },
    { role: 'system', name: 'example_user', content: 'New synergies will help drive top-line growth.' },
    { role: 'system', name: 'example_assistant', content: 'Things working well together will increase revenue.' },
    {
      role: 'system',
      name: 'example_user',
      content: "Let's circle back when we have more bandwidth to touch base on opportunities for increased leverage.",
    },
    {
      role: 'system',
      name: 'example_assistant',
      content: "Let's talk later when we're less busy about how to do better.",
    },
    {
      role: 'user',
      content: "This late pivot means we don't have time to boil the ocean for the client deliverable.",
    },
  ]
  expect(await plain.prompt('key', { model: 'm', messages })).toBe(124)
})

test('counts response and reasoning, with reasoning as part of the output', async () => {
  const usage = await plain.usage(
    'key',
    ask('Hello'),
    heard('Hello! How can I help you?', { reasoning: ['A greeting.'] }),
  )
  expect(usage).toEqual({ ...NO_USAGE, prompt: FRAME + 1, completion: 8 + 3, reasoning: 3 })
  expect(await plain.usage('key', ask('Hello'), heard(''))).toMatchObject({
    prompt: FRAME + 1,
    completion: 0,
    reasoning: 0,
  })
})

test.each([
  ['names of control tokens, as the text they are', '<|endoftext|><|im_start|>', 12],
  ['halves of characters', '\ud83e and \udd8a', 3],
  ['zero bytes', '\0\0', 1],
])('counts %s', async (_, text, tokens) => {
  expect(await plain.prompt('key', ask(text))).toBe(FRAME + tokens)
})

test('counts media by published figures', async () => {
  const image = {
    type: 'image_url' as const,
    image_url: { url: 'https://images.example/1.png', detail: 'low' as const },
  }
  const file = {
    type: 'file' as const,
    file: { filename: 'a.txt', file_data: Buffer.from('Hello').toString('base64') },
  }
  const body: CanonicalRequest = { model: 'm', messages: [{ role: 'user', content: [image, file] }] }
  expect(await plain.prompt('key', body)).toBe(FRAME + 85 + 1)
})

const HOSTILE: [string, string][] = [
  ['one letter', 'a'.repeat(256_000)],
  [
    'letters without a break',
    Array.from({ length: 256_000 }, (_, i) => String.fromCharCode(97 + ((i * i) % 26))).join(''),
  ],
  ['base64', Buffer.from(Uint8Array.from({ length: 192_000 }, (_, i) => (i * i * 31) >> 3)).toString('base64')],
  ['Chinese', Array.from({ length: 85_000 }, (_, i) => String.fromCharCode(0x4e00 + ((i * 37) % 8_000))).join('')],
  ['emoji', Array.from({ length: 64_000 }, (_, i) => String.fromCodePoint(0x1f300 + ((i * 37) % 800))).join('')],
  ['blanks', Array.from({ length: 128_000 }, (_, i) => ' \t\u00a0\u3000'[(i * i) % 4] ?? '').join('')],
  ['marks on one letter', `e${'\u0301'.repeat(128_000)}`],
]
test('counts a quarter of a megabyte of any text, even with few breaks', async () => {
  for (const [name, text] of HOSTILE) {
    expect(`${name}: ${(await plain.prompt('key', ask(text))) === null ? 'gave up' : 'counted'}`).toBe(
      `${name}: counted`,
    )
  }
})

test('extrapolates text that is too long to count', async () => {
  const text = 'All of it the same. '.repeat(2_000)
  const one = await plain.usage('key', ask(text), heard(text))
  const fifty = await plain.usage('key', ask(text.repeat(50)), heard(text.repeat(50)))
  expect(fifty.prompt - FRAME).toBeCloseTo((one.prompt - FRAME) * 50, -3)
  expect(fifty.completion).toBeCloseTo(one.completion * 50, -3)
})

test("text that wasn't captured is counted at the ratio of captured text, or by bytes without any", async () => {
  const text = 'All of it the same. '.repeat(100)
  const { completion } = await plain.usage('key', ask('Hello'), heard(text))
  expect(await plain.usage('key', ask('Hello'), heard(text, { moreAnswer: text.length }))).toMatchObject({
    completion: completion * 2,
  })
  expect(await plain.usage('key', ask('Hello'), heard('', { moreReasoning: 40 }))).toMatchObject({ reasoning: 10 })
})

const toRare = (n: number) => 0x4e00 + (n % 20_000)

test('a long count alternates with those of other keys, with the same result', async () => {
  const counter = open()
  const order: string[] = []
  const note = (name: string) => (tokens: number | null) => {
    order.push(name)
    return tokens
  }
  await counter.prompt('key', ask('Hello'))
  // Words of rare characters take about ten times as long as a slice.
  const word = (n: number) =>
    String.fromCharCode(...Array.from({ length: 250 }, (_, at) => toRare(n * 7_919 + at * 131)))
  const words = Array.from({ length: 250 }, (_, n) => word(n)).join(' ')
  const [slow, quick] = await Promise.all([
    counter.prompt('long', ask(words)).then(note('long')),
    counter.prompt('short', ask('Hello')).then(note('short')),
  ])
  expect(quick).toBe(FRAME + 1)
  expect(order).toEqual(['short', 'long'])
  expect(slow).toBe(FRAME + countTokens(words))
})

test('counts the same prompt of several calls once', async () => {
  const counter = open({ maxWaiting: 1 })
  const { messages } = ask('Hello')
  const tools = [{ type: 'function' as const, function: { name: 'f' } }]
  const first = counter.prompt('key', { model: 'm', messages, tools })
  const others = Array.from({ length: 9 }, () => counter.prompt('key', { model: 'm', messages, tools, n: 1 }))
  const without = counter.prompt('key', { model: 'm', messages })
  expect(new Set(await Promise.all([first, ...others]))).toEqual(new Set([FRAME + 1 + 13]))
  expect(await without).toBe(FRAME + 1)
})

test('starts its thread on first use, stops it when idle, and starts another one on the next use', async () => {
  const counter = open({ idleMs: 1 })
  expect(workers).toHaveLength(0)
  expect(await counter.prompt('key', ask('Hello'))).toBe(FRAME + 1)
  await ended(workers[0])
  expect(await counter.prompt('key', ask('Hello'))).toBe(FRAME + 1)
  expect(workers).toHaveLength(2)
})

const body = ask('A prompt that nobody counts.')
const ESTIMATED = { prompt: estimate(body, 0).promptTokens, completion: 3 }
const estimated = (usage: Promise<unknown>) => expect(usage).resolves.toMatchObject(ESTIMATED)

test('after a crash of the thread, estimates are used, and the next use starts another one', async () => {
  const counter = open()
  const usage = [counter.usage('key', body, heard('nine bytes')), counter.usage('key', body, heard('nine bytes'))]
  workers[0]?.terminate()
  for (const each of usage) await estimated(each)
  expect(await counter.prompt('key', ask('Hello'))).toBe(FRAME + 1)
  expect(workers).toHaveLength(2)
})

test.each([
  ['is not there', () => new Worker(`${WORKER}.gone`)],
  ['fails at once', () => new Worker(URL.createObjectURL(new Blob(['throw new Error("no")'])))],
  [
    'cannot be made',
    () => {
      throw new Error('no more threads')
    },
  ],
  ['exits on its own', () => new Worker(URL.createObjectURL(new Blob(['process.exit(0)'])))],
] as [string, () => Worker][])('a thread that %s leaves estimates', async (_, createWorker) => {
  const warnings: string[] = []
  const counter = open({ createWorker, log: { warn: (_, message) => warnings.push(message) } })
  await estimated(counter.usage('key', body, heard('nine bytes')))
  expect(await counter.prompt('key', body)).toBeNull()
  expect(new Set(warnings)).toEqual(new Set(['token counting thread failed']))
})

test("a thread that doesn't respond in time is stopped, and estimates are used", async () => {
  const silent = () => new Worker(URL.createObjectURL(new Blob(['for (;;);'])))
  const counter = open({ createWorker: silent, timeoutMs: 50 })
  await estimated(counter.usage('key', body, heard('nine bytes')))
})

test('if too many counts are queued, further ones are estimated', async () => {
  const counter = open({ maxWaiting: 2 })
  const counts = Array.from({ length: 5 }, () => counter.prompt('key', ask('Hello')))
  expect(await Promise.all(counts)).toEqual([FRAME + 1, FRAME + 1, FRAME + 1, null, null])
})

test('closing ends all waiting counts, and nothing is started anymore', async () => {
  const counter = open()
  const usage = counter.usage('key', body, heard('nine bytes'))
  counter.close()
  await estimated(usage)
  await estimated(counter.usage('key', body, heard('nine bytes')))
  expect(workers).toHaveLength(1)
})
