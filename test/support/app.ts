/**
 * A whole gateway in this process, for tests: the real server on a free port, with a data folder of its own, a
 * catalogue that points at scripted upstreams, a clock that the test turns, and a log that is kept. It asserts nothing.
 */
import { Database } from 'bun:sqlite'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { applyCatalog } from '../../src/catalog/apply.ts'
import { parseCatalog } from '../../src/catalog/file.ts'
import { loadProcesses } from '../../src/catalog/model-files.ts'
import { version } from '../../src/cli/io.ts'
import { type ServeConfig, toServeConfig } from '../../src/config.ts'
import type { Origin } from '../../src/domain/models.ts'
import { decideKey, type KeyOptions, revokeKey } from '../../src/keys/service.ts'
import { createLog } from '../../src/log.ts'
import { startServer } from '../../src/server/server.ts'
import type { Actor, ConfigStore } from '../../src/store/config-store.ts'
import { databasePath } from '../../src/store/sqlite/files.ts'

/** What the upstreams of a test know and no client may ever see. Of no shape that a redacting log would mask. */
import { expectCharges } from './charges.ts'
import { putMigrated } from './migrated.ts'

export const CREDENTIAL = 'the upstream credential 0123456789'

export interface AppOptions {
  /** The catalogue's text; see `gateway.ts`. */
  catalog: string
  /** Where its rows are from; a file, unless it says otherwise. */
  origin?: Origin
  environment?: Record<string, string>
  /** Settings of the server other than their defaults. Nothing is retried and no upstream is probed unless it says so. */
  config?: Partial<ServeConfig>
}

export interface TestApp {
  /** Ends in `/v1`. */
  baseUrl: string
  /** Without `/v1`. */
  origin: string
  dataFolder: string
  /** The server's clocks: they stand still unless the test moves them, together with `pass`. */
  clock: { nowMs: number; monotonicMs: number }
  /** Every secret that was made or configured here, for a test that looks for them. */
  secrets: string[]
  key(options?: Partial<KeyOptions>): string
  /** Lets time go by, on both clocks. */
  pass(ms: number): void
  revoke(secret: string): void
  /** Makes a change of configuration, which any request that follows is subject to. */
  change(work: (store: ConfigStore, by: Actor) => Promise<unknown>): void
  /** Has the database take what the journal holds: at once, unless it is at it already. */
  apply(): void
  /** Resolves once it has. */
  flushed(): Promise<void>
  /** Rows of the ledger, oldest first, read as another process would. */
  rows(): LedgerRow[]
  /** How many requests were recorded so far, also those that the database has yet to hear of. */
  count(): Promise<number>
  /** Waits until exactly `count` rows are there and none is open. */
  settled(count: number): Promise<LedgerRow[]>
  logText(): Promise<string>
  logLines(): Promise<Record<string, unknown>[]>
  /** Drains and closes. True if nothing was cut. Throws where a charge of its ledger cannot be worked out again. */
  stop(): Promise<boolean>
}

/** One row of `requests`, by its column names. */
export interface LedgerRow {
  id: string
  key_id: string
  team_id: string | null
  model: string
  upstream: string
  status: string
  http_status: number | null
  error_code: string | null
  stream: number
  created_ms: number
  first_token_ms: number | null
  prompt_tokens: number
  cached_tokens: number
  completion_tokens: number
  reasoning_tokens: number
  estimated: number
  reserved_prompt_tokens: number
  reserved_completion_tokens: number
  reserved_nano_usd: number
  cost_nano_usd: number
  compute_ms: number
  attempts: number
  user: string | null
  upstream_request_id: string | null
}

export async function startApp({
  catalog,
  origin = 'file',
  environment = {},
  config = {},
}: AppOptions): Promise<TestApp> {
  const dataFolder = mkdtempSync(join(tmpdir(), 'tollgate-app-'))
  putMigrated(dataFolder)
  const clock = { nowMs: Date.UTC(2026, 10, 21, 12), monotonicMs: 1_000 }
  const now = () => clock.nowMs
  const written: string[] = []
  const log = createLog({ now, write: async (text) => void written.push(text.toString()) })
  const known = { UPSTREAM_KEY: CREDENTIAL, ...environment }
  const parsed = await parseCatalog(catalog, { name: 'test', environment: known })
  // As a file that was named.
  const source = { name: 'test', path: 'test', origin: 'file' as const, text: catalog, modelFiles: [] }
  const { specs } = await loadProcesses(source, true)
  const server = await startServer({
    dataFolder,
    environment: { PATH: process.env.PATH, ...known },
    log,
    now,
    version: version(),
    monotonicMs: () => clock.monotonicMs,
    backoffMs: 1,
    loadProcesses: async () => specs,
    configure: () => ({
      ...toServeConfig(NO_SETTINGS),
      port: 0,
      retries: 0,
      probeMs: 0,
      disconnectGraceMs: 0,
      ...config,
    }),
    async prepare(store) {
      const how = { origin, actor: 'test', subject: 'test', digest: 'd', nowMs: now() } as const
      await applyCatalog(store, parsed.catalog, how)
    },
    commands: { reload: async () => ({ settings: [], variables: [] }), drain() {}, makeBackup: async () => null },
  })
  const reader = new Database(databasePath(dataFolder), { readonly: true })
  const secrets = Object.values(known)
  const actor = () => ({ actor: 'test', nowMs: now() })
  // This store decides at once, and the server has read it again before any request can reach it.
  const change: TestApp['change'] = (work) =>
    void server.reload(async (store) => {
      await work(store, actor())
    })
  const apply = () => void server.flush()
  const rows = () => {
    apply()
    return reader.query<LedgerRow, []>('SELECT * FROM requests ORDER BY id').all()
  }
  const logText = async () => {
    await log.flush()
    return written.join('')
  }

  return {
    baseUrl: server.baseUrl,
    origin: new URL(server.baseUrl).origin,
    dataFolder,
    clock,
    secrets,
    pass(ms) {
      clock.nowMs += ms
      clock.monotonicMs += ms
    },
    key(options = {}) {
      let secret = ''
      change((store, by) =>
        store.changeKeys(by, (rows) => {
          const decided = decideKey(rows, { name: 'test', ...options }, by)
          secret = decided.value.secret
          return decided
        }),
      )
      secrets.push(secret)
      return secret
    },
    revoke: (secret) => change((store, by) => revokeKey(store, secret.slice(-4), by)),
    change,
    apply,
    flushed: async () => void (await server.flush()),
    rows,
    async count() {
      await server.flush()
      return rows().length
    },
    async settled(count) {
      const until = performance.now() + 10_000
      for (;;) {
        await server.flush()
        const all = rows()
        if (all.length === count && all.every((row) => row.status !== 'open')) return all
        if (performance.now() > until) throw new Error(`no ${count} settled rows but ${JSON.stringify(all)}`)
        await Bun.sleep(5)
      }
    },
    logText,
    logLines: async () => (await logText()).split('\n').filter(Boolean).map(toLine),
    async stop() {
      reader.close()
      const clean = await server.stop()
      try {
        await expectCharges(databasePath(dataFolder))
      } finally {
        rmSync(dataFolder, { recursive: true, force: true })
      }
      return clean
    },
  }
}

const NO_SETTINGS = { flags: {}, environment: {}, settings: {} }

const toLine = (text: string): Record<string, unknown> => JSON.parse(text)
