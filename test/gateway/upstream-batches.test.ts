/** Batches at their upstreams' batch price: requests, results, money, and failures. */
import { beforeEach, describe, expect, test } from 'bun:test'
import { wholeMessage } from '../support/anthropic-answers.ts'
import { CREDENTIAL, startApp } from '../support/app.ts'
import { beginBatch, readLines, toChatLine, toClient } from '../support/batch-client.ts'
import { type BatchUpstream, type RemoteBatch, startBatchUpstream } from '../support/batch-upstream.ts'
import { forAllTests } from '../support/lifetime.ts'
import { until } from '../support/until.ts'
import { wholeAnswer } from '../support/upstream-answers.ts'

const FACTS =
  'context_length: 8192, max_output_length: 100, input_modalities: [text], output_modalities: [text], supported_features: []'
/** Nano-dollars per token: 1,000 and 2,000, in batches 500 and 1,000. */
const PRICING =
  'pricing: [{ prompt: "0.000001", completion: "0.000002" }, { mode: batch, prompt: "0.0000005", completion: "0.000001" }]'

const at = forAllTests(async () => {
  const [openai, anthropic] = [startBatchUpstream('openai'), startBatchUpstream('anthropic')]
  const app = await startApp({
    catalog: `
version: 1
upstreams:
  ours: { dialect: openai, base_url: "${openai.url}", api_key: \${UPSTREAM_KEY}, batches: [chat, embeddings], n: false }
  claude: { dialect: anthropic, base_url: "${anthropic.url}", api_key: \${UPSTREAM_KEY}, batches: [messages] }
models:
  o/chat: { name: C, ${FACTS}, ${PRICING}, routes: [{ upstream: ours, model: chat-1 }] }
  o/unpriced: { name: U, ${FACTS}, pricing: [{ prompt: "0", completion: "0" }], routes: [{ upstream: ours, model: chat-2 }] }
  c/claude: { name: C, ${FACTS}, ${PRICING}, routes: [{ upstream: claude, model: claude-1 }] }
`,
  })
  const [key, other] = [app.key(), app.key({ name: 'other' })]
  return {
    ...{ app, openai, anthropic, key, other },
    async stop() {
      await app.stop()
      await Promise.all([openai.stop(), anthropic.stop()])
    },
  }
})

const answered = wholeAnswer({ tokens: ['Yes'], usage: { prompt_tokens: 100, completion_tokens: 10 } }).body as object
const message = wholeMessage({ blocks: [{ text: 'Yes' }], usage: { input_tokens: 100, output_tokens: 10 } })
  .body as object
const COST = 100 * 500 + 10 * 1_000

const clientOf = (apiKey = at.key) => toClient(apiKey, at.app.baseUrl)
const client = () => clientOf()

beforeEach(() => {
  for (const upstream of [at.openai, at.anthropic]) {
    upstream.fail = null
    upstream.answer = () => ({ status: 200, body: upstream === at.openai ? answered : message })
  }
})

const begin = (model: string, bodies: readonly object[], by = client()) =>
  beginBatch(
    by,
    bodies.map((body, at) =>
      toChatLine(`my "own" ${at}`, { model, messages: [{ role: 'user', content: `Hello ${at}` }], ...body }),
    ),
  )

async function ended(id: string, by = client()) {
  for (;;) {
    const batch = await by.batches.retrieve(id)
    if (['completed', 'failed', 'expired', 'cancelled'].includes(batch.status)) return batch
    at.app.pass(1_000)
    await Bun.sleep(5)
  }
}

const read = (id: string | null | undefined, by = client()) => readLines(by, id)

/** The upstream's newest batch that has not ended. */
async function submission({ batches }: BatchUpstream): Promise<RemoteBatch> {
  await until('the submission', () => {
    at.app.pass(1_000)
    return batches[0]?.status === 'in_progress'
  })
  return batches[0] as RemoteBatch
}

const end = (remote: RemoteBatch, status: string) => Object.assign(remote, { status, hasFiles: true })

const rowsOf = async (before: number, count: number) => (await at.app.settled(before + count)).slice(before)

describe('a batch at its upstream', () => {
  test.each([
    ['OpenAI', 'o/chat', 'openai', '/v1/batches'],
    ['Anthropic', 'c/claude', 'anthropic', '/v1/messages/batches'],
  ] as const)('of %s costs its batch price, line by line', async (_, model, name, path) => {
    const upstream = at[name]
    const before = at.app.rows().length
    const { id } = await begin(model, [{}, { max_tokens: 5 }, {}])
    await until('the submission', () => upstream.batches.length === 1)
    const [remote] = upstream.batches
    expect(remote?.lines[1]?.body).toMatchObject({ model: model === 'o/chat' ? 'chat-1' : 'claude-1', max_tokens: 5 })
    expect(JSON.stringify(remote?.lines)).not.toContain('own')
    Object.assign(remote ?? {}, { status: 'completed', hasFiles: false })
    const looks = () => upstream.asked.filter((one) => one === `GET ${path}/${remote?.id}`).length
    await until('a second look', () => {
      at.app.pass(1_000)
      return looks() >= 2
    })
    // The state changes before the results are written.
    expect((await client().batches.retrieve(id)).status).toBe('in_progress')
    if (remote) remote.hasFiles = true
    const batch = await ended(id)
    expect(batch.request_counts).toEqual({ total: 3, completed: 3, failed: 0 })
    expect(batch.usage).toMatchObject({ input_tokens: 300, output_tokens: 30 })
    const output = await read(batch.output_file_id)
    expect(output.map((line) => line.custom_id).sort()).toEqual(['my "own" 0', 'my "own" 1', 'my "own" 2'])
    expect(output[0].response).toMatchObject({
      status_code: 200,
      body: {
        object: 'chat.completion',
        model,
        choices: [{ message: { content: 'Yes' } }],
        usage: { cost_nano_usd: COST },
      },
    })
    const rows = await rowsOf(before, 3)
    expect(rows.map((row) => [row.cost_nano_usd, row.status, row.estimated])).toEqual(Array(3).fill([COST, 'ok', 0]))
    expect(rows.map(({ id }) => `req_${id}`).sort()).toEqual(output.map((line) => line.response.request_id).sort())
  })

  test('is partly paid if it expires: errors, missing results, and responses without usage are distinguished', async () => {
    const { openai } = at
    const before = at.app.rows().length
    openai.answer = ({ custom_id: id }) => {
      if (id.endsWith('-5'))
        return { status: 400, body: { error: { message: 'too hot', code: 'bad', param: 'temperature' } } }
      if (id.endsWith('-4')) return 'none'
      return { status: 200, body: id.endsWith('-3') ? { ...answered, usage: undefined } : answered }
    }
    const { id } = await begin('o/chat', [{}, {}, {}, {}, {}, {}])
    end(await submission(openai), 'expired')
    const batch = await ended(id)
    expect(batch).toMatchObject({ status: 'completed', request_counts: { total: 6, completed: 1, failed: 5 } })
    const errors = await read(batch.error_file_id)
    const codes = errors.map((one) => [one.custom_id.at(-1), one.error?.code ?? one.response.status_code])
    expect(Object.fromEntries(codes)).toEqual({
      ...{ 0: 'batch_expired', 1: 'batch_expired', 2: 'batch_expired', 4: 'batch_expired', 5: 400 },
    })
    expect(errors.find((one) => one.response)?.response.body.error).toMatchObject({ message: 'too hot', code: 'bad' })
    const rows = await rowsOf(before, 2)
    expect(rows.map((row) => [row.status, row.http_status, row.estimated]).sort()).toEqual([
      ['failed', 400, 0],
      ['ok', 200, 1],
    ])
    const [estimated] = rows.filter((row) => row.estimated === 1)
    expect(estimated?.cost_nano_usd).toBe(
      (estimated?.prompt_tokens ?? 0) * 500 + (estimated?.completion_tokens ?? 0) * 1_000,
    )
  })

  test.each([
    ['its client cancels it', async (id: string) => void (await client().batches.cancel(id))],
    ['its key is revoked', async () => at.app.revoke(at.other)],
  ])('is canceled there if %s, and its finished lines are charged', async (why, stop) => {
    const { openai } = at
    const before = at.app.rows().length
    const { id } = await begin('o/chat', [{}, {}], why.includes('key') ? clientOf(at.other) : client())
    const remote = await submission(openai)
    await stop(id)
    await until('the cancellation', () => {
      at.app.pass(250)
      return openai.asked.includes(`POST /v1/batches/${remote.id}/cancel`)
    })
    end(remote, 'cancelled')
    const ends = async () =>
      (await at.app.logLines()).filter((line) => line.event === 'batch_ended' && line.batch === id)
    await until('its end', async () => {
      at.app.pass(1_000)
      return (await ends()).length > 0
    })
    expect(await ends()).toMatchObject([{ state: 'cancelled', completed: 1, failed: 1 }])
    expect((await rowsOf(before, 1)).map((row) => row.cost_nano_usd)).toEqual([COST])
  })

  test.each(['openai', 'anthropic'] as const)(
    'whose submission was not confirmed is found, not sent twice: %s',
    async (name) => {
      const upstream = at[name]
      const count = upstream.batches.length
      const [model, path] = name === 'openai' ? ['o/chat', '/v1/batches'] : ['c/claude', '/v1/messages/batches']
      upstream.fail = (method, asked) =>
        method === 'POST' && asked === path && upstream.batches.length === count ? 'later' : null
      const before = at.app.rows().length
      const { id } = await begin(model, [{}, {}])
      end(await submission(upstream), 'completed')
      const batch = await ended(id)
      expect(batch.request_counts).toEqual({ total: 2, completed: 2, failed: 0 })
      expect(upstream.batches.length).toBe(count + 1)
      expect((await rowsOf(before, 2)).map((row) => row.cost_nano_usd)).toEqual([COST, COST])
    },
  )

  test('that its upstream rejects costs nothing, and each line has the reason', async () => {
    const { openai } = at
    const before = at.app.rows().length
    openai.fail = (method, path) =>
      method === 'POST' && path === '/v1/batches'
        ? Response.json({ error: { message: `no batches for ${CREDENTIAL}`, code: 'nope' } }, { status: 400 })
        : null
    const batch = await ended((await begin('o/chat', [{}, {}])).id)
    const [first, second] = await read(batch.error_file_id)
    expect(first.response).toMatchObject({ status_code: 400, body: { error: { code: 'nope' } } })
    expect(JSON.stringify([first, second])).not.toContain(CREDENTIAL)
    expect(await at.app.count()).toBe(before)
  })

  test("reserves its maximum cost until it ends, or isn't sent", async () => {
    const { openai } = at
    const rich = at.app.key({ name: 'rich', budget: { nanoUsd: 500_000, period: 'total' } })
    // `rejects` doesn't accept its promises.
    const chat = async () =>
      await clientOf(rich).chat.completions.create({
        model: 'o/chat',
        max_tokens: 100,
        messages: [{ role: 'user', content: 'x' }],
      })
    const { id } = await begin('o/chat', [{}, {}, {}], clientOf(rich))
    const remote = await submission(openai)
    await expect(chat()).rejects.toMatchObject({ code: 'insufficient_quota' })
    const count = openai.batches.length
    const refused = await ended((await begin('o/chat', [{}, {}], clientOf(rich))).id, clientOf(rich))
    const [line] = await read(refused.error_file_id, clientOf(rich))
    expect(line.response).toMatchObject({ status_code: 429, body: { error: { code: 'insufficient_quota' } } })
    expect(openai.batches.length).toBe(count)
    end(remote, 'completed')
    await ended(id, clientOf(rich))
    expect((await chat()).model).toBe('o/chat')
  })

  test('leaves unsupported lines to the gateway: several calls, or a model without a batch price', async () => {
    const { openai } = at
    const before = at.app.rows().length
    const mixed = await begin('o/chat', [{}, { n: 2 }])
    const remote = await submission(openai)
    expect(remote.lines.length).toBe(1)
    end(remote, 'completed')
    const whole = await begin('o/unpriced', [{}])
    expect((await ended(mixed.id)).request_counts).toEqual({ total: 2, completed: 2, failed: 0 })
    expect((await ended(whole.id)).request_counts).toEqual({ total: 1, completed: 1, failed: 0 })
    expect((await rowsOf(before, 3)).map((row) => row.cost_nano_usd).sort((a, b) => a - b)).toEqual([0, COST, 4 * COST])
  })

  test('is polled every 15 s at most, however often its client asks', async () => {
    const { openai } = at
    const { id } = await begin('o/chat', [{}])
    const remote = await submission(openai)
    const looks = () => openai.asked.filter((one) => one === `GET /v1/batches/${remote.id}`).length
    await until('the first look', () => looks() === 1)
    for (let asked = 0; asked < 5; asked++) await client().batches.retrieve(id)
    at.app.pass(13_000)
    await Bun.sleep(600)
    expect(looks()).toBe(1)
    at.app.pass(2_000)
    await until('the next look', () => looks() === 2)
    end(remote, 'completed')
    await ended(id)
  })

  test('that its upstream has lost costs its reservation', async () => {
    const { openai } = at
    const before = at.app.rows().length
    const { id } = await begin('o/chat', [{ max_tokens: 40 }])
    const remote = await submission(openai)
    openai.batches.shift()
    const batch = await ended(id)
    const [line] = await read(batch.error_file_id)
    expect(line).toMatchObject({ response: null, error: { code: 'lost' } })
    const [row] = await rowsOf(before, 1)
    expect(row).toMatchObject({ status: 'cut', estimated: 1, error_code: 'lost', completion_tokens: 40 })
    expect(row?.cost_nano_usd).toBe((row?.prompt_tokens ?? 0) * 500 + 40 * 1_000)
    expect(remote.status).toBe('in_progress')
  })
})

test("a line of several calls, one charged and another refused for now, isn't sent again", async () => {
  const before = at.app.rows().length
  let calls = 0
  at.openai.fail = (_, path) => {
    if (!path.endsWith('/chat/completions') || ++calls === 1) return null
    return Response.json({ error: { message: 'Slow down.' } }, { status: 429 })
  }
  const { id } = await begin('o/chat', [{ n: 2 }])
  const batch = await ended(id)
  expect(await read(batch.error_file_id)).toMatchObject([{ response: { status_code: 429 } }])
  const rows = await rowsOf(before, 1)
  expect(rows.filter((row) => row.cost_nano_usd > 0).length).toBe(1)
})
