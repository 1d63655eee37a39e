/** A gateway with two paid upstreams, a local one, and a closed port. Words and price show which one answered. */
import { Database } from 'bun:sqlite'
import { expect } from 'bun:test'
import type { ServeConfig } from '../../src/config.ts'
import { auditLedger } from '../../src/ledger/audit.ts'
import { databasePath } from '../../src/store/sqlite/files.ts'
import { createLedgerAudit } from '../../src/store/sqlite/ledger-audit.ts'
import { CREDENTIAL, startApp, type TestApp } from './app.ts'
import { type ChatOptions, HELLO } from './gateway.ts'
import { type ScriptedUpstream, type Seen, startUpstream } from './upstream.ts'
import { type Behaviour, streamAnswer, wholeAnswer } from './upstream-answers.ts'

/** Cost of a call, by upstream. */
export const PRICES = { first: [1_000, 2_000], second: [3_000, 5_000], here: [0, 0] } as const

export const costAt = (upstream: keyof typeof PRICES, prompt: number, completion: number) =>
  prompt * PRICES[upstream][0] + completion * PRICES[upstream][1]

/** Usage each upstream reports. */
export const COUNTED = { prompt_tokens: 10, completion_tokens: 3 }

export const answering =
  (name: string) =>
  ({ json }: Seen): Behaviour => {
    const answer = { tokens: ['this ', 'is ', name], usage: COUNTED }
    return json?.stream === true ? streamAnswer(answer) : wholeAnswer(answer)
  }

export interface Places {
  first: string
  second: string
  here: string
}

/** @param deadlines of `first`, such as `headers: 50ms`. */
export function toSeveralCatalogue({ first, second, here }: Places, deadlines = ''): string {
  const facts = 'context_length: 8192, max_output_length: 1000, input_modalities: [text], output_modalities: [text]'
  const pricing = 'pricing: [{ prompt: "0.000001", completion: "0.000002" }]'
  const model = (name: string, ...routes: string[]) =>
    `  acme/${name}: { name: ${name}, ${facts}, supported_features: [tools], ${pricing}, routes: [${routes.join(', ')}] }`
  const toSecond =
    '{ upstream: second, model: two, priority: 1, pricing: [{ prompt: "0.000003", completion: "0.000005" }] }'
  return `
version: 1
upstreams:
  first: { dialect: openai, base_url: "${first}", api_key: \${UPSTREAM_KEY}, n: false, deadlines: { ${deadlines} } }
  second: { dialect: openai, base_url: "${second}", api_key: \${UPSTREAM_KEY}, n: false }
  here: { dialect: openai, base_url: "${here}", local: true }
  dead: { dialect: openai, base_url: "http://127.0.0.1:1/v1", api_key: \${UPSTREAM_KEY} }
  nowhere: { dialect: openai, base_url: "http://nonexistent.invalid/v1", api_key: \${UPSTREAM_KEY} }
models:
${[
  model('both', '{ upstream: first, model: one }', toSecond),
  model('only', '{ upstream: first, model: one }'),
  model('other', '{ upstream: first, model: other }'),
  model('lost', '{ upstream: nowhere, model: one }'),
  model('dead', '{ upstream: dead, model: one }', toSecond),
  model('nowhere', '{ upstream: nowhere, model: one }', toSecond),
  model('mixed', '{ upstream: first, model: one }', '{ upstream: here, model: tiny, priority: 1 }'),
  model(
    'narrow',
    '{ upstream: first, model: one, context_length: 100, max_output_length: 50, supported_features: [] }',
    toSecond,
  ),
  model('shared', '{ upstream: first, model: one, weight: 1 }', '{ upstream: second, model: one, weight: 3 }'),
].join('\n')}
`
}

export interface CallRow {
  number: number
  reason: string
  upstream: string
  status: string
  http_status: number | null
  error_code: string | null
  prompt_tokens: number
  completion_tokens: number
  cost_nano_usd: number
  reserved_nano_usd: number
}

export interface Several {
  app: TestApp
  first: ScriptedUpstream
  second: ScriptedUpstream
  here: ScriptedUpstream
  key: string
  /** To `acme/both`, unless `body` says otherwise. */
  chat(body?: Record<string, unknown>, options?: ChatOptions & { key?: string }): Promise<Response>
  calls(requestId: string): CallRow[]
  /** Makes all upstreams succeed, and clears penalties. */
  calm(): void
  stop(): Promise<void>
}

export async function startSeveral(
  options: { deadlines?: string; config?: Partial<ServeConfig> } = {},
): Promise<Several> {
  const [first, second, here] = [await startUpstream(), await startUpstream(), await startUpstream()]
  const { deadlines, ...rest } = options
  const catalog = toSeveralCatalogue({ first: first.url, second: second.url, here: here.url }, deadlines)
  const app = await startApp({ catalog, ...rest })
  const key = app.key()
  const several: Several = {
    app,
    first,
    second,
    here,
    key,
    chat: (body = {}, { headers = {}, signal, key: own = key } = {}) =>
      fetch(`${app.baseUrl}/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${own}`, 'content-type': 'application/json', ...headers },
        body: JSON.stringify({ ...HELLO, model: 'acme/both', ...body }),
        ...(signal ? { signal } : {}),
      }),
    calls: (requestId) =>
      reading(app, (sqlite) =>
        sqlite
          .query<CallRow, [string]>('SELECT * FROM calls WHERE request_id = ? AND number > 1 ORDER BY number')
          .all(requestId.replace(/^req_/, '')),
      ),
    calm() {
      first.script(answering('first'))
      second.script(answering('second'))
      here.script(answering('here'))
      app.pass(60_000)
    },
    async stop() {
      await Promise.all([first.stop(), second.stop(), here.stop()])
      await app.stop()
    },
  }
  several.calm()
  return several
}

/** Fails unless ledger, calls and rollup agree and nothing is open. */
export async function expectHonest(app: TestApp): Promise<void> {
  const { dataFolder } = app
  await app.flushed()
  const { findings } = reading(app, (sqlite) => auditLedger(createLedgerAudit(sqlite, dataFolder), dataFolder))
  expect(findings).toEqual([])
  expect(app.rows().filter(({ status }) => status === 'open')).toEqual([])
}

/** Stops them. Fails unless every call ended, the ledger is exact, and the log has no internal error and no secret. */
export async function endWell(several: Several): Promise<void> {
  for (const { waitFor } of [several.first, several.second]) await waitFor(isOver, 'the end of every call')
  const log = await several.app.logText()
  expect(log).not.toContain(CREDENTIAL)
  expect(log).not.toContain('"level":"error"')
  await expectHonest(several.app)
  await several.stop()
}

/** Reads the database as another process does, after the journal is applied. */
export function reading<T>(app: TestApp, read: (sqlite: Database) => T): T {
  app.apply()
  const sqlite = new Database(databasePath(app.dataFolder), { readonly: true })
  try {
    return read(sqlite)
  } finally {
    sqlite.close()
  }
}

/** True if nothing is in flight at an upstream. */
export const isOver = (seen: readonly Seen[]) =>
  seen.every(({ answeredAtMs, abortedAtMs }) => answeredAtMs !== null || abortedAtMs !== null)
