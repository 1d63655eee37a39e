/** A conversation moves to another vendor and back: strict upstreams accept it, and only signatures are lost. */
import { beforeEach, describe, expect, test } from 'bun:test'
import { errorMessage, toSignature } from '../support/anthropic-answers.ts'
import { toFrames } from '../support/frames.ts'
import { googleError } from '../support/gemini-upstream.ts'
import { forAllTests } from '../support/lifetime.ts'
import { reading } from '../support/several-upstreams.ts'
import { type Behaviour, errorAnswer } from '../support/upstream-answers.ts'
import { startVendors, VENDORS, type Vendor } from './vendors.ts'

const vendors = forAllTests(startVendors)
beforeEach(() => vendors.play())

const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
const tools = ['weather', 'clock'].map((name) => ({ type: 'function', function: { name, parameters } }))
const mark = { cache_control: { type: 'ephemeral' } }

/** A temporary failure before the first word, per vendor. */
const FAILURES: Record<Vendor, Behaviour[]> = {
  openai: [errorAnswer(503, 'Busy'), { kind: 'reset' }],
  anthropic: [errorMessage(529, 'overloaded_error', 'Overloaded'), { kind: 'reset' }],
  gemini: [googleError(503, 'UNAVAILABLE', 'The model is overloaded.'), { kind: 'reset' }],
}

const PICTURE = 'iVBORw0KGgo='

/** The second tool returns an image. */
const toResult = (text: string, at: number) =>
  at === 0
    ? text
    : [
        { type: 'text', text },
        { type: 'image_url', image_url: { url: `data:image/png;base64,${PICTURE}` } },
      ]

/** A turn of two calls with each vendor, then the answer with the first again. */
async function converse(model: string, stream: boolean, failure: Behaviour): Promise<void> {
  const [from = '', to = ''] = model.split('/')
  const second = to === 'mistral' ? to : `${to}-2`
  const first = vendors.upstreams[`${from}-1`]
  const messages: Record<string, unknown>[] = [
    { role: 'system', content: [{ type: 'text', text: 'Be brief.', ...mark }] },
    { role: 'user', content: 'Weather and time in Rome?', ...mark },
  ]
  const ask = async (by: string) => {
    const { message, upstream } = await vendors.ask({ model, stream, messages, tools, reasoning_effort: 'low' })
    expect(upstream).toBe(by)
    messages.push(message)
    const calls = (message.tool_calls ?? []) as { id: string }[]
    for (const [at, { id }] of calls.entries())
      messages.push({
        role: 'tool',
        tool_call_id: id,
        content: toResult(`result ${messages.length} of ${at}`, at),
        ...mark,
      })
    return calls.length
  }
  expect(await ask(`${from}-1`)).toBe(2)
  first?.script(failure)
  expect(await ask(second)).toBe(2)
  expect(await ask(second)).toBe(0)
  expect(messages.at(-1)).toMatchObject({ role: 'assistant', content: 'Sunny.' })
  // The first is back, and reads its own signature.
  vendors.resume(`${from}-1`)
  messages.push({ role: 'user', content: 'Thanks. And?' })
  expect(await ask(`${from}-1`)).toBe(0)
  expect(Object.values(vendors.refused).flat()).toEqual([])
}

describe.each(VENDORS)('a task begun by %s', (from) => {
  describe.each([...VENDORS, 'mistral'] as const)('continues with %s', (to) => {
    test.each([
      ['whole', false, 0],
      ['streamed', true, 1],
    ] as const)('%s', async (_, stream, at) => {
      await converse(`${from}/${to}`, stream, FAILURES[from][at] as Behaviour)
      const sent = vendors.upstreams[to === 'mistral' ? to : `${to}-2`]?.requests.at(-1)?.body ?? ''
      for (const text of ['Be brief.', 'Weather and time in Rome?', 'result 3 of 0', 'result 4 of 1', 'Rome', PICTURE])
        expect(sent).toContain(text)
      expect(sent).not.toContain('"signer"')
      expect(sent).not.toContain('by-openai')
      expect(sent).not.toContain(toSignature('Hm of anthropic-1'))
      const rows = await vendors.app.settled(await vendors.app.count())
      expect(rows.slice(-4).map(({ status, attempts }) => ({ status, attempts }))).toEqual([
        { status: 'ok', attempts: 1 },
        { status: 'ok', attempts: 2 },
        { status: 'ok', attempts: 2 },
        { status: 'ok', attempts: 1 },
      ])
      const own = vendors.upstreams[`${from}-1`]?.requests.at(-1)?.body ?? ''
      if (from === 'anthropic') expect(own).toContain(toSignature('Hm of anthropic-1'))
      if (from === 'gemini') expect(own).toMatch(/"thoughtSignature":"(?!skip)/)
      for (const name of ['anthropic-1', 'anthropic-2'])
        if (name !== `${from}-1`) expect(own).not.toContain(toSignature(`Hm of ${name}`))
    })
  })
})

/** Reported to clients: read, of it from the cache, written. */
const COUNTED: Record<Vendor, [prompt: number, cached: number, completion: number]> = {
  openai: [20, 0, 4],
  anthropic: [10, 0, 5],
  gemini: [40, 8, 12],
}

describe.each(VENDORS)('a failure of %s before its first token', (from) => {
  test.each(VENDORS.flatMap((to) => [0, 1].map((at) => [to, at] as const)))(
    'fails over to %s (%d): its usage, its price, its name, and no charge for the first',
    async (to, at) => {
      const { app, upstreams } = vendors
      upstreams[`${from}-1`]?.script(FAILURES[from][at] as Behaviour)
      const response = await fetch(`${app.baseUrl}/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${app.key()}`, 'content-type': 'application/json' },
        body: JSON.stringify({
          model: `${from}/${to}`,
          messages: [{ role: 'user', content: [{ type: 'text', text: 'Weather?', ...mark }] }],
          tools,
          stream: true,
          stream_options: { include_usage: true },
        }),
      })
      const text = await response.text()
      expect(response.status).toBe(200)
      expect(response.headers.get('x-tollgate-upstream')).toBe(`${to}-2`)
      expect(response.headers.get('x-tollgate-attempts')).toBe('2')
      const { usage } = toFrames(text).frames.at(-1) ?? {}
      const [prompt, cached, completion] = COUNTED[to]
      const cost = prompt * 2_000 + completion * 4_000
      expect(usage).toMatchObject({
        prompt_tokens: prompt,
        completion_tokens: completion,
        prompt_tokens_details: { cached_tokens: cached },
        cost_nano_usd: cost,
      })
      const row = (await app.settled(await app.count())).at(-1)
      expect(row).toMatchObject({ status: 'ok', upstream: `${to}-2`, attempts: 2, cost_nano_usd: cost })
      const id = response.headers.get('x-request-id')?.replace(/^req_/, '') ?? ''
      const calls = reading(app, (sqlite) =>
        sqlite
          .query<object, [string]>(
            'SELECT number, reason, upstream, status, cost_nano_usd FROM calls WHERE request_id = ? ORDER BY number',
          )
          .all(id),
      )
      expect(calls).toMatchObject([
        { number: 1, reason: 'first', upstream: `${from}-1`, status: 'failed', cost_nano_usd: 0 },
        { number: 2, reason: 'fallback', upstream: `${to}-2`, status: 'ok', cost_nano_usd: cost },
      ])
    },
  )
})
