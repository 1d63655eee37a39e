/**
 * Properties of a real gateway: any body gets a response that follows the contract; a valid one changes only as the
 * contract says.
 */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { checkError, checkHeaders, checkStream, checkWhole } from '../support/contract.ts'
import { startGateway } from '../support/gateway.ts'
import { forAllTests } from '../support/lifetime.ts'
import { anyBrokenText } from './any-broken.ts'
import { anyRequest, EXTENSIONS, LEFT_OUT } from './any-request.ts'

const gateway = forAllTests(startGateway)

const MODEL = 'acme/typed'

const post = (body: string) =>
  fetch(`${gateway.app.baseUrl}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
    body,
  })

/** Checks the response against the contract, and returns its status. */
async function expectContract(body: string): Promise<number> {
  const response = await post(body)
  const answer = await response.text()
  const { status, headers } = response
  expect(status === 200 || (status >= 400 && status < 500) ? 'fine' : `${status} ${answer}`).toBe('fine')
  if (status !== 200) {
    checkError(status, headers, answer)
    return status
  }
  const { stream, stream_options: options, n } = JSON.parse(body)
  const asked = { model: MODEL, choices: n ?? 1, includeUsage: options?.include_usage === true }
  checkHeaders(stream ? 'stream' : 'whole', headers)
  const report = stream ? checkStream(answer, asked) : checkWhole(answer, asked)
  expect(report.choices.map(({ content, finish }) => ({ content, finish }))).toEqual([
    { content: 'tok0 tok1 tok2 tok3 tok4 ', finish: 'stop' },
  ])
  return status
}

const isAbsent = (key: string, value: unknown) =>
  value === null || ((key === 'tools' || key === 'tool_calls') && Array.isArray(value) && value.length === 0)

const present = (value: object, keep: (key: string) => boolean = () => false) =>
  Object.fromEntries(Object.entries(value).filter(([key, held]) => keep(key) || !isAbsent(key, held)))

const isUnknown = (key: string) => key.startsWith('x_') || UNKNOWN.has(key)
const UNKNOWN = new Set(EXTENSIONS)

/** The request with the contract's changes and no others. */
function toExpected(request: Record<string, unknown>): Record<string, unknown> {
  const sent: Record<string, unknown> = present(request, isUnknown)
  for (const name of LEFT_OUT) delete sent[name]
  const { messages, tools, stream, stream_options: options } = sent
  const list = (value: unknown): Record<string, object>[] => (Array.isArray(value) ? value : [])
  return {
    ...sent,
    model: 'typed-v1',
    messages: list(messages).map((message) => present(message, (key) => key === 'content')),
    ...(tools
      ? {
          tools: list(tools).map((tool) =>
            Object.fromEntries(
              Object.entries(tool).map(([key, held]) => [key, typeof held === 'object' ? present(held) : held]),
            ),
          ),
        }
      : {}),
    ...(stream === true ? { stream_options: { ...(options as object | undefined), include_usage: true } } : {}),
  }
}

describe('any body at all', () => {
  test('of any text is rejected with the contract’s error', async () => {
    const body = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.constantFrom('', '{', 'null', 'NaN', '\ufeff{}', '{"model":'),
    )
    await fc.assert(
      fc.asyncProperty(body, async (text) => {
        expect(await expectContract(text)).toBe(400)
      }),
      { numRuns: 100 },
    )
  })

  test('of any JSON is rejected with the contract’s error', async () => {
    await fc.assert(
      fc.asyncProperty(fc.jsonValue(), fc.boolean(), async (value, asMore) => {
        const base = { model: MODEL, messages: value }
        expect(await expectContract(JSON.stringify(asMore ? base : value))).toBe(400)
      }),
      { numRuns: 150 },
    )
  })

  test('with parts dropped, replaced, and added gets a response of the contract, and never a 5xx', async () => {
    const statuses = new Set<number>()
    await fc.assert(
      fc.asyncProperty(anyBrokenText(MODEL), async (text) => {
        statuses.add(await expectContract(text))
      }),
      { numRuns: 200 },
    )
    expect(statuses).toContain(200)
    expect(statuses).toContain(400)
  })
})

describe('any valid request', () => {
  test("reaches the upstream as sent, except for the contract's changes", async () => {
    await fc.assert(
      fc.asyncProperty(anyRequest(MODEL), async (request) => {
        const text = JSON.stringify(request)
        expect(await expectContract(text)).toBe(200)
        const sent: Record<string, unknown> = JSON.parse(text)
        expect(gateway.upstream.requests.at(-1)?.json).toEqual(toExpected(sent))
      }),
      { numRuns: 200 },
    )
  })
})

test('afterwards the gateway still runs, and every dispatched request is settled', async () => {
  expect((await fetch(new URL('/healthz', gateway.app.origin))).status).toBe(200)
  const rows = await gateway.app.settled(gateway.upstream.requests.length)
  expect(new Set(rows.map(({ status }) => status))).toEqual(new Set(['ok']))
})
