/** The quirks corpus over real sockets, at once or byte by byte; every byte a client gets is checked. */
import { describe, expect, test } from 'bun:test'
import { QUIRKS, readTranscript } from '../fixtures/quirks/index.ts'
import type { Quirk } from '../fixtures/quirks/quirk.ts'
import { checkError, checkHeaders, checkStream, checkWhole } from '../support/contract.ts'
import { expectAnswers } from '../support/expected.ts'
import { startGateway } from '../support/gateway.ts'
import { forAllTests } from '../support/lifetime.ts'

const gateway = forAllTests(startGateway)

const pick = (...names: string[]): Quirk[] =>
  names.map((name) => QUIRKS.find((quirk) => quirk.name === name) ?? { name: `no ${name}`, shows: '' })

/** The local upstream thinks in tags, and writes one choice per call. */
const toRequest = ({ asked = {}, answers = [] }: Quirk) => ({
  model: asked.thinkTags ? 'local/tiny' : 'acme/large',
  ...(answers.some(({ logprobs }) => logprobs) ? { logprobs: true } : {}),
  ...(asked.choices ? { n: asked.choices } : {}),
})

const streams = pick(
  'plain',
  'cr',
  'bom',
  'comments',
  'multi-line-data',
  'utf8',
  'half-characters',
  'line-separators',
  'no-done-nor-blank-line',
  'after-done',
  'finish-never',
  'usage-in-every-chunk',
  'choices-out-of-order',
  'think-split',
  'tools-index-drifting',
  'tools-without-index',
  'error-with-done',
  'error-openrouter',
  'eof-in-a-frame',
)

describe.each([
  ['at once', undefined],
  ['byte by byte', 1],
] as const)('sent %s', (_, bytesPerWrite) => {
  test.each(streams)('a stream of an upstream that $shows ($name) keeps the contract', async (quirk) => {
    const bytes = readTranscript(quirk.name, 'sse')
    gateway.upstream.script({ kind: 'stream', steps: [bytes], end: 'eof', ...(bytesPerWrite ? { bytesPerWrite } : {}) })
    const asked = toRequest(quirk)
    const response = await gateway.chat({ ...asked, stream: true, stream_options: { include_usage: true } })
    expect(response.status).toBe(200)
    checkHeaders('stream', response.headers)
    const report = checkStream(await response.text(), { includeUsage: true, model: asked.model, choices: asked.n ?? 1 })
    expectAnswers(report.choices, quirk)
    expect(report.error !== null).toBe(quirk.error !== undefined)
    if (!quirk.usage) return
    const [prompt, completion, cached = 0, reasoning = 0] = quirk.usage
    expect(report.usage).toEqual({ prompt, completion, cached, reasoning })
  })
})

test("an upstream that keeps its socket open after [DONE] doesn't delay the client", async () => {
  const [quirk] = pick('plain')
  gateway.upstream.script({ kind: 'stream', steps: [readTranscript('plain', 'sse')], end: 'hang' })
  const report = checkStream(await (await gateway.chat({ stream: true })).text())
  if (quirk) expectAnswers(report.choices, quirk)
})

describe('before its first token, a stream that', () => {
  test.each(pick('error-first'))('$shows ($name) is an error with a status', async ({ name, error }) => {
    gateway.upstream.script({ kind: 'stream', steps: [readTranscript(name, 'sse')], end: 'eof' })
    const response = await gateway.chat({ stream: true })
    const told = checkError(response.status, response.headers, await response.text())
    expect(response.status).toBe(400)
    expect(told.message).toContain(String(error))
  })
})

const answers = pick(
  'plain',
  'blank-lines',
  'logprobs-nan',
  'tools-arguments-object',
  'finish-null',
  'think',
  'reasoning',
)

describe.each([false, true])('a whole response (compressed: %p)', (gzip) => {
  test.each(answers)('of an upstream that $shows ($name) keeps the contract', async (quirk) => {
    const headers = { 'content-type': 'application/json' }
    gateway.upstream.script({ kind: 'whole', body: readTranscript(quirk.name, 'whole'), headers, gzip })
    const asked = toRequest(quirk)
    const response = await gateway.chat(asked)
    expect(response.status).toBe(200)
    checkHeaders('whole', response.headers)
    expectAnswers(checkWhole(await response.text(), { model: asked.model }).choices, quirk)
  })
})
