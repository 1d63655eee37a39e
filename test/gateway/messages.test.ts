/** Clients of Anthropic's API on strict upstreams of three vendors. */
import { beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { errorMessage, toSignature } from '../support/anthropic-answers.ts'
import { googleError } from '../support/gemini-upstream.ts'
import { forAllTests } from '../support/lifetime.ts'
import { type Block, checkMessage, checkMessageStream, type Message } from '../support/messages-contract.ts'
import { type Behaviour, errorAnswer } from '../support/upstream-answers.ts'
import { startVendors, VENDORS, type Vendor } from './vendors.ts'

let key = ''
const vendors = forAllTests(() => startVendors(undefined, 'passthrough: false'))
beforeAll(() => {
  key = vendors.app.key()
})
beforeEach(() => vendors.play())

const input_schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
const cache_control = { type: 'ephemeral' }

const post = (body: object, path = '/messages?beta=true') =>
  fetch(`${vendors.app.baseUrl}${path}`, {
    method: 'POST',
    headers: {
      'x-api-key': key,
      'content-type': 'application/json',
      'anthropic-version': '2023-06-01',
      'anthropic-beta': 'claude-code-20250219,context-management-2025-06-27',
    },
    body: JSON.stringify(body),
  })

/** Checks the answer as SDKs do. */
async function ask(
  body: { stream?: boolean } & Record<string, unknown>,
): Promise<{ message: Message; by: string | null }> {
  const response = await post(body)
  const text = await response.text()
  expect({ status: response.status, text, refused: vendors.refused }).toMatchObject({ status: 200 })
  expect(response.headers.get('request-id')).toBe(response.headers.get('x-request-id') ?? '')
  expect(response.headers.get('x-tollgate-passthrough')).toBe('false')
  const message = body.stream ? checkMessageStream(text).message : checkMessage(text)
  return { message, by: response.headers.get('x-tollgate-upstream') }
}

/** An agent's request, with fields that no other vendor knows. */
const toRequest = (model: string, stream: boolean, messages: object[]) => ({
  model,
  stream,
  max_tokens: 32_000,
  system: [
    { type: 'text', text: 'x-anthropic-billing-header: cc_version=2.1; cc_entrypoint=sdk;' },
    { type: 'text', text: 'Be brief.', cache_control },
  ],
  messages,
  tools: [
    { name: 'weather', description: 'Says the weather', input_schema, cache_control },
    { name: 'clock', description: 'Says the time', input_schema },
    { type: 'code_execution_20250825', name: 'code_execution' },
    { type: 'web_search_20250305', name: 'web_search', max_uses: 8 },
    { type: 'mcp_toolset', mcp_server_name: 'x' },
  ],
  metadata: { user_id: '{"device_id":"d","account_uuid":"","session_id":"s"}' },
  thinking: { type: 'adaptive' },
  output_config: { effort: 'high' },
  context_management: { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] },
  a_field_of_tomorrow: { is: ['here'] },
})

const toResults = (content: readonly Block[], turn: number) =>
  content
    .filter(({ type }) => type === 'tool_use')
    .map(({ id }, at) => ({
      type: 'tool_result',
      tool_use_id: id,
      is_error: at === 1,
      content: at === 0 ? `sunny ${turn}` : [{ type: 'text', text: 'broken' }, PICTURE],
      ...(at === 1 ? { cache_control } : {}),
    }))

const PICTURE = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' } }

describe.each(VENDORS.flatMap((vendor) => [true, false].map((stream) => [vendor, stream] as const)))(
  'with %s, streamed: %p',
  (vendor, stream) => {
    test('a task is done with several tools over several turns', async () => {
      const rows = await vendors.app.count()
      const messages: object[] = [
        { role: 'user', content: [{ type: 'text', text: 'Weather and time in Rome?' }, PICTURE] },
        { role: 'system', content: 'You are in a hurry.' },
      ]
      const reasons: unknown[] = []
      let last: Block | undefined
      for (const turn of [1, 2, 3]) {
        const { message, by } = await ask(toRequest(`${vendor}/${vendor}`, stream, messages))
        expect({ by, model: message.model }).toEqual({ by: `${vendor}-1`, model: `${vendor}/${vendor}` })
        reasons.push(message.stop_reason)
        last = message.content.at(-1)
        messages.push({ role: 'assistant', content: message.content })
        const results = toResults(message.content, turn)
        if (results.length > 0) messages.push({ role: 'user', content: [...results, { type: 'text', text: 'Go on.' }] })
      }
      expect(reasons).toEqual(['tool_use', 'tool_use', 'end_turn'])
      // Claude Code takes the last block for the answer; Gemini puts its signature behind the text.
      expect(last).toMatchObject({ type: 'text', text: 'Sunny.' })
      expect(vendors.refused).toMatchObject({ [`${vendor}-1`]: [] })
      const sent = JSON.stringify(vendors.upstreams[`${vendor}-1`]?.requests.at(-1)?.json)
      expect(sent).not.toContain('billing')
      expect(sent).not.toContain('tomorrow')
      expect(sent).not.toContain('code_execution')
      expect(sent).toContain('You are in a hurry.')
      const made = (await vendors.app.settled(rows + 3)).slice(rows)
      expect(made.map(({ status, user }) => ({ status, user }))).toEqual(
        Array(3).fill({ status: 'ok', user: '{"device_id":"d","account_uuid":"","session_id":"s"}' }),
      )
    })
  },
)

/** A temporary failure before the first word, per vendor. */
const FAILURES: Record<Vendor, Behaviour> = {
  openai: errorAnswer(503, 'Busy'),
  anthropic: errorMessage(529, 'overloaded_error', 'Overloaded'),
  gemini: googleError(503, 'UNAVAILABLE', 'The model is overloaded.'),
}

describe.each(VENDORS.flatMap((from) => VENDORS.filter((to) => to !== from).map((to) => [from, to] as const)))(
  'a task begun by %s',
  (from, to) => {
    test(`continues with ${to} between its tools, and returns`, async () => {
      const model = `${from}/${to}`
      const messages: object[] = [{ role: 'user', content: 'Weather and time in Rome?' }]
      const step = async (by: string, stream: boolean) => {
        const answer = await ask(toRequest(model, stream, messages))
        expect(answer.by).toBe(by)
        messages.push({ role: 'assistant', content: answer.message.content })
        const results = toResults(answer.message.content, messages.length)
        if (results.length > 0) messages.push({ role: 'user', content: results })
        return results.length
      }
      expect(await step(`${from}-1`, true)).toBe(2)
      vendors.upstreams[`${from}-1`]?.script(FAILURES[from])
      expect(await step(`${to}-2`, false)).toBe(2)
      vendors.resume(`${from}-1`)
      expect(await step(`${from}-1`, true)).toBe(0)
      expect(vendors.refused).toMatchObject({ [`${from}-1`]: [], [`${to}-2`]: [] })
      // A signature returns only to its issuer.
      const own = JSON.stringify(vendors.upstreams[`${from}-1`]?.requests.at(-1)?.json)
      if (from === 'anthropic') expect(own).toContain(toSignature('Hm of anthropic-1'))
      if (from === 'gemini') expect(own).toMatch(/"thoughtSignature":"(?!skip)/)
      expect(own).not.toContain(toSignature('Hm of anthropic-2'))
      const other = JSON.stringify(vendors.upstreams[`${to}-2`]?.requests.at(-1)?.json)
      for (const signature of [toSignature('Hm of anthropic-1'), 'by-openai-', 'tg1.', '"signer"'])
        expect(other).not.toContain(signature)
    })
  },
)
