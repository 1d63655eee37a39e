/**
 * A whole gateway in this process: the real server with its own data folder, scripted upstreams, a settable clock and a
 * recorded log.
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

/** Upstream secrets that no client may see, in no shape that log redaction would mask. */
import { expectCharges } from './charges.ts'
import { putMigrated } from './migrated.ts'

export const CREDENTIAL = 'the upstream credential 0123456789'

export interface AppOptions {
  catalog: string
  origin?: Origin
  environment?: Record<string, string>
  /** Overrides of the defaults. By default without retries and health checks. */
  config?: Partial<ServeConfig>
}

export interface TestApp {
  /** Ends in `/v1`. */
  baseUrl: string
  /** Without `/v1`. */
  origin: string
  dataFolder: string
  /** The server's clocks move only through `pass`. */
  clock: { nowMs: number; monotonicMs: number }
  /** Every secret created or configured here. */
  secrets: string[]
  key(options?: Partial<KeyOptions>): string
  pass(ms: number): void
  revoke(secret: string): void
  /** Changes the configuration; every later request sees it. */
  change(work: (store: ConfigStore, by: Actor) => Promise<unknown>): void
  /** Applies the journal to the database now, unless that is in progress. */
  apply(): void
  /** Resolves once the journal is applied. */
  flushed(): Promise<void>
  /** Ledger rows, oldest first, as another process reads them. */
  rows(): LedgerRow[]
  /** Includes requests that are only in the journal yet. */
  count(): Promise<number>
  /** Waits until there are exactly `count` rows and none is open. */
  settled(count: number): Promise<LedgerRow[]>
  logText(): Promise<string>
  logLines(): Promise<Record<string, unknown>[]>
  /** Drains and closes. True if nothing was interrupted. Throws if a charge can't be recalculated. */
  stop(): Promise<boolean>
}

/** A row of `requests`, by column names. */
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
  // The store applies changes at once, and the server rereads it before the next request.
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
