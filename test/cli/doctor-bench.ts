/** A data folder with a catalog, as a stopped server leaves it, and `doctor` on it. */
import type { Database } from 'bun:sqlite'
import { expect } from 'bun:test'
import { chmodSync, copyFileSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { version } from '../../src/cli/io.ts'
import type { Status } from '../../src/server/protocol.ts'
import { createConfigStore } from '../../src/store/sqlite/config-store.ts'
import { databasePath } from '../../src/store/sqlite/files.ts'
import { openDatabase } from '../../src/store/sqlite/open.ts'
import { inspectVault } from '../../src/store/vault.ts'
import { pretendServer, toStatus } from '../support/status.ts'
import { type Bench, createBench, type Ran } from './run.ts'

export const NOW = Date.UTC(2026, 10, 21)

export interface Examined {
  code: number
  /** Every line that is not `ok`, as `name: status: message`. */
  troubles: string[]
  /** The findings of that name, each as `status: message`. */
  of(name: string): string
}

export interface Clinic {
  folder: string
  path(...names: string[]): string
  run(...argv: string[]): Promise<Ran>
  /** User and environment of the checks. */
  bench: Pick<Bench, 'isWatched' | 'answers' | 'environment' | 'piped'>
  /** Opens the database as another process. Closed with the bench. */
  database(): Database
  /** Simulates a running server on the folder with this status, which decrypts credentials with its own environment. */
  serve(fields?: Partial<Status>, environment?: Record<string, string>): void
  /** Replaces it with another one. */
  restart(fields: Partial<Status>): Promise<void>
  examine(...argv: string[]): Promise<Examined>
  end(): Promise<void>
}

const FACTS =
  'context_length: 8192, max_output_length: 1000, input_modalities: [text], output_modalities: [text], supported_features: []'
/** `here` needs no credential, `keyed` lacks its own. */
const CATALOGUE = `version: 1
upstreams:
  here: { dialect: openai, base_url: "http://127.0.0.1:1/v1", local: true }
  keyed: { dialect: openai, base_url: "http://127.0.0.1:1/v1", local: true, api_key: \${KEYED} }
models:
  local/a: { name: A, ${FACTS}, routes: [{ upstream: here, model: a }] }
  local/b: { name: B, ${FACTS}, routes: [{ upstream: keyed, model: b }] }
  local/c: { name: C, ${FACTS}, routes: [{ upstream: keyed, model: c }] }
`

export async function openClinic(): Promise<Clinic> {
  const bench = createBench(NOW)
  const folder = join(bench.folder, 'data')
  const path = (...names: string[]) => join(folder, ...names)
  const run = (...argv: string[]) => bench.run('--data', folder, ...argv)
  const connections: Database[] = []
  const connect = () => {
    const sqlite = openDatabase(databasePath(folder), { busyMs: 0 })
    connections.push(sqlite)
    return sqlite
  }
  let stopServer = async () => {}
  const serve = (fields: Partial<Status> = {}, environment: Record<string, string> = {}) => {
    const status = toStatus({ version: version(), ...fields })
    const store = createConfigStore(connect())
    stopServer = pretendServer(
      folder,
      status,
      async () => null,
      () => inspectVault(store, folder, environment),
      environment,
    )
    chmodSync(path('serve.lock'), 0o600)
  }
  await Bun.write(join(bench.folder, 'c.yaml'), CATALOGUE)
  expect((await bench.run('catalog', 'apply', 'c.yaml')).code).toBe(0)
  expect((await bench.run('keys', 'create', '--name', 'dev')).code).toBe(0)
  // A copy, since the command may still have its own open.
  const source = openDatabase(databasePath(bench.folder), { busyMs: 0 })
  source.run('PRAGMA wal_checkpoint(TRUNCATE)')
  source.close()
  mkdirSync(folder, { mode: 0o700 })
  copyFileSync(databasePath(bench.folder), databasePath(folder))
  chmodSync(databasePath(folder), 0o600)
  return {
    ...{ folder, path, run, bench },
    database: connect,
    serve,
    async restart(fields) {
      await stopServer()
      serve(fields)
    },
    async examine(...argv) {
      const { code, stdout, stderr } = await run('doctor', '--json', ...argv)
      const checks: { name: string; status: string; message: string }[] = JSON.parse(stdout).checks
      expect(code).toBe(checks.some(({ status }) => status === 'problem') ? 1 : 0)
      expect(stderr === '').toBe(code === 0)
      return {
        code,
        troubles: checks.filter(({ status }) => status !== 'ok').map((each) => Object.values(each).join(': ')),
        of: (name) =>
          checks
            .filter((check) => check.name === name)
            .map(({ status, message }) => `${status}: ${message}`)
            .join('\n'),
      }
    },
    async end() {
      for (const sqlite of connections) sqlite.close()
      await stopServer()
      chmodSync(folder, 0o700)
      bench.close()
    },
  }
}
