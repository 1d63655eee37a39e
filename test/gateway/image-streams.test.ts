/** Images as server-sent events: what passes, what is charged, and when. */
import { describe, expect, test } from 'bun:test'
import { randomBytes } from 'node:crypto'
import type { Field } from '../support/audio-forms.ts'
import { forAllTests } from '../support/lifetime.ts'
import { until } from '../support/until.ts'
import { errorAnswer, type Stream, type StreamStep } from '../support/upstream-answers.ts'
import { B64, startImages, USAGE } from './image-gateway.ts'

const gateway = forAllTests(startImages)
/** 23 × 5 + 1,056 × 30 thousand nano-dollars. */
const COST = 31_795_000

const frame = (type: string, fields: object, isNamed = true): string =>
  `${isNamed ? `event: ${type}\n` : ''}data: ${JSON.stringify({ type, ...fields })}\n\n`
const partial = (at: number, b64_json = 'cGFydA==', isNamed = true) =>
  frame('image_generation.partial_image', { b64_json, partial_image_index: at }, isNamed)
const FACTS = { size: '1024x1024', quality: 'medium', output_format: 'png' }
const completed = (more: object = { usage: USAGE }, b64_json = B64.b64_json) =>
  frame('image_generation.completed', { b64_json, created_at: 1_700_000_000, ...FACTS, ...more })

const stream = (steps: Iterable<StreamStep>, end: Stream['end'] = 'eof') =>
  gateway.near.script({ kind: 'stream', steps, end, headers: { 'content-type': 'text/event-stream' } })

const ask = (model = 'gpt', more: object = {}, options: RequestInit = {}) =>
  gateway.post(
    '/v1/images/generations',
    { model: `i/${model}`, prompt: 'a cat', stream: true, partial_images: 2, ...more },
    options,
  )

async function events(response: Response) {
  const frames = (await response.text()).split('\n\n').filter((one) => /^(?:event|data)/.test(one))
  return frames.map((one) => {
    const [, event = null, data = ''] = /^(?:event: (.*)\n)?data: (.*)$/s.exec(one) ?? []
    // biome-ignore lint/suspicious/noExplicitAny: for a test to look into
    return { event, json: JSON.parse(data) as any }
  })
}

describe('a stream', () => {
  test.each([
    ['named events', true],
    ['events without names', false],
  ])('passes %s of partial images, and ends with the finished one and its cost', async (_, isNamed) => {
    stream([partial(0, undefined, isNamed), partial(1, undefined, isNamed), completed()])
    const response = await ask()
    expect(response.headers.get('content-type')).toStartWith('text/event-stream')
    const found = await events(response)
    expect(found.map(({ event }) => event)).toEqual([
      'image_generation.partial_image',
      'image_generation.partial_image',
      'image_generation.completed',
    ])
    expect(found[1]?.json).toMatchObject({ type: 'image_generation.partial_image', partial_image_index: 1 })
    expect(found[2]?.json).toMatchObject({ ...B64, ...FACTS, created_at: 1_700_000_000 })
    expect(found[2]?.json.usage).toMatchObject({ ...USAGE, images: 1, cost_nano_usd: COST })
    expect(gateway.sent()?.json).toMatchObject({ model: 'gpt-image-1.5', stream: true, partial_images: 2 })
    expect(gateway.row()).toMatchObject({ status: 'ok', cost_nano_usd: COST, estimated: 0, unpriced: 0, images: 1 })
  })

  test('passes a partial_image of 10 MiB, and a finished image of 20 MiB that comes first', async () => {
    const [ten, twenty] = [10, 20].map((mib) => randomBytes(mib * 768 * 1024).toString('base64'))
    stream([partial(0, ten), completed()])
    expect((await events(await ask()))[0]?.json.b64_json).toBe(ten)
    stream([completed(undefined, twenty)])
    expect((await events(await ask('gpt', { partial_images: 0 })))[0]?.json.b64_json).toBe(twenty)
  })

  test('passes escaped base64 with fields in any order, and images known only by their data', async () => {
    stream([
      'data: {"partial_image_index":0,"b64_json":"AAAAAAAA\\/BB","type":"image_generation.partial_image"}\n\n',
      'data: {"b64_json":"AAAAAAAA\\/BB","note":"\\"","type":"image_generation.completed"}\n\n',
    ])
    const found = await events(await ask())
    expect(found.map(({ json }) => json.b64_json)).toEqual(['AAAAAAAA/BB', 'AAAAAAAA/BB'])
    expect(gateway.row()).toMatchObject({ status: 'ok', images: 1 })
  })

  test("fails if its image isn't base64, since no client could read its JSON", async () => {
    stream(['data: {"b64_json":"AAAAAAAA\u0001BBBB","type":"image_generation.completed"}\n\n'])
    expect((await ask()).status).toBe(502)
  })

  test('is interrupted at an event of over 32 MiB, and charged for earlier output', async () => {
    const huge = partial(1, 'A'.repeat(33 * 1024 * 1024))
    stream([partial(0), huge])
    const found = await events(await ask())
    expect(found.map(({ event }) => event)).toEqual(['image_generation.partial_image', 'error'])
    expect(found[1]?.json.error.message).toContain('more than 32 MiB')
    expect(gateway.row()).toMatchObject({ status: 'cut', estimated: 1 })
  })

  test('is settled before its last event', async () => {
    stream([completed()])
    const response = await ask()
    for await (const piece of response.body ?? []) {
      if (!Buffer.from(piece).includes('completed')) continue
      expect(gateway.row()).toMatchObject({ status: 'ok', cost_nano_usd: COST })
    }
  })

  test('of an edit passes through, from its form', async () => {
    stream([frame('image_edit.partial_image', B64), frame('image_edit.completed', { ...B64, usage: USAGE })])
    const fields: Field[] = [
      ...([
        ['model', 'i/gpt'],
        ['prompt', 'x'],
        ['stream', 'true'],
        ['partial_images', '1'],
      ] as const),
      ['image', Buffer.from('x'), '; filename="a.png"'],
    ]
    const found = await events(await gateway.postForm(fields))
    expect(found.map(({ event }) => event)).toEqual(['image_edit.partial_image', 'image_edit.completed'])
    expect(found[1]?.json.usage.cost_nano_usd).toBe(COST)
    expect(gateway.sent()?.body).toContain('name="stream"')
    gateway.near.script({ kind: 'whole', body: { data: [B64] } })
    const [only] = await events(await gateway.postForm([['model', 'i/flat'], ...fields.slice(1)]))
    expect(gateway.sent()?.body).not.toContain('name="stream"')
    expect(only).toMatchObject({ event: 'image_edit.completed', json: { ...B64, usage: { images: 1 } } })
  })

  test('of a model that can’t stream has the events of its whole response', async () => {
    gateway.near.script({ kind: 'whole', body: { data: [B64, B64] } })
    const found = await events(await ask('flat', { n: 2 }))
    expect(found.map(({ event }) => event)).toEqual(Array(2).fill('image_generation.completed'))
    expect(found.map(({ json }) => json.usage?.cost_nano_usd)).toEqual([undefined, 50_000_000])
    expect(gateway.sent()?.json).not.toHaveProperty('stream')
  })

  test('of several images adds up the usage of each', async () => {
    stream([completed(), partial(0), completed()])
    const found = await events(await ask('gpt', { n: 2 }))
    expect(found.map(({ json }) => json.usage?.cost_nano_usd)).toEqual([undefined, undefined, 2 * COST])
  })

  test('that fails early has its upstream’s status, and later an error as its last event', async () => {
    gateway.near.script(errorAnswer(400, 'Your request was rejected by the safety system.'))
    expect((await ask()).status).toBe(400)
    stream([partial(0), frame('error', { error: { message: 'It broke.', code: 'x' } })])
    const found = await events(await ask())
    expect(found.at(-1)).toMatchObject({ event: 'error', json: { type: 'error', error: {} } })
    expect(gateway.row()).toMatchObject({ status: 'cut', estimated: 1 })
  })
})

describe('a client that disconnects', () => {
  test.each([
    ['a stream', { stream: true }],
    ['a whole answer', { stream: false }],
  ])('%s is read further, and its usage recorded', async (_, more) => {
    const { promise, resolve } = Promise.withResolvers<void>()
    const isStream = more.stream
    const whole = JSON.stringify({ data: [B64], ...FACTS, usage: USAGE })
    gateway.near.script({
      kind: 'stream',
      steps: isStream ? [partial(0), { until: promise }, completed()] : [' ', { until: promise }, whole],
      end: 'eof',
      headers: { 'content-type': isStream ? 'text/event-stream' : 'application/json' },
    })
    const before = gateway.app.rows().length
    const leaving = new AbortController()
    const asking = ask('gpt', { ...more, partial_images: isStream ? 1 : undefined }, { signal: leaving.signal })
    const asked = gateway.near.requests.length
    if (isStream) {
      const reader = (await asking).body?.getReader()
      await reader?.read()
    } else await gateway.near.waitFor((requests) => requests.length > asked, 'the request')
    asking.catch(() => {})
    leaving.abort()
    await Bun.sleep(50)
    resolve()
    await until('the usage is booked', async () => {
      await gateway.app.flushed()
      return gateway.app.rows().length > before && gateway.row()?.cost_nano_usd === COST
    })
    expect(gateway.row()).toMatchObject({ status: 'cut', prompt_tokens: 23, completion_tokens: 1_056 })
  })
})

describe("a GPT image model that doesn't report usage", () => {
  test.each([
    ['by its table', 'gpt', { quality: 'high', size: '1536x1024' }, {}, 6_208],
    ['at the answered quality', 'gpt', { quality: 'high' }, { quality: 'low', size: '1024x1536' }, 408],
    ['at the dearest, if nothing is known', 'gpt', { quality: 'auto' }, {}, 6_240],
    ['by area for other sizes', 'gpt', { quality: 'medium', size: '2048x2048' }, {}, 4 * 1_056],
    ['with more of gpt-image-2', 'gpt-2', { quality: 'high', size: '1024x1024' }, {}, 7_030],
  ])('is charged %s, marked as estimated', async (_, model, more, facts, tokens) => {
    gateway.near.script({ kind: 'whole', body: { data: [B64], ...facts } })
    const response = await ask(model, { stream: false, partial_images: undefined, ...more })
    const { usage } = (await response.json()) as { usage: { cost_nano_usd: number; input_tokens: number } }
    // "a cat" and its frame
    expect(usage.cost_nano_usd).toBe(tokens * 30_000 + usage.input_tokens * 5_000)
    expect(gateway.row()).toMatchObject({ completion_tokens: tokens, estimated: 1, unpriced: 0 })
  })

  test('and is interrupted in the second of four images is charged for two', async () => {
    stream([completed({}), partial(0)], 'cut')
    await (await ask('gpt', { n: 4 })).text()
    expect(gateway.row()).toMatchObject({ status: 'cut', images: 2, completion_tokens: 2 * 1_056 + 100, estimated: 1 })
  })

  test('and is interrupted after two partial images is charged for them', async () => {
    stream([partial(0), partial(1)], 'cut')
    await (await ask('gpt', { quality: 'low', size: '1024x1024' })).text()
    expect(gateway.row()).toMatchObject({ status: 'cut', completion_tokens: 272 + 200, estimated: 1 })
  })
})
