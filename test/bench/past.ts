/** Folders with a history from `history.ts`, each with a running server. */
import { mkdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { findFreePort } from '../support/free-port.ts'
import { type History, writeHistory } from './history.ts'
import { startProcess, waitUntilUp } from './processes.ts'
import { type Subject, up } from './subjects.ts'
import { MODEL, startTollgate, toRoutedCatalog, toServe } from './tollgate.ts'

/** Connections of wrk. */
export const CONNECTIONS = 32

export interface PastFolder {
  history: History
  folder: string
  data: string
  key: string
}

export async function writePast(
  history: History,
  root: string,
  upstream: string,
): Promise<PastFolder & { bytes: number }> {
  const folder = join(root, 'day-two', `${history.requests}-${history.keys}`)
  mkdirSync(folder, { recursive: true })
  const { process, key } = await startTollgate('tollgate', folder, await findFreePort(), upstream)
  await process.drain()
  const data = join(folder, 'data')
  const database = join(data, 'tollgate.db')
  const before = statSync(database).size
  await writeHistory(data, history)
  return { history, folder, data, key, bytes: statSync(database).size - before }
}

/** Also returns the time to the first response. */
export async function serve(
  { folder, key }: Pick<PastFolder, 'folder' | 'key'>,
  upstream: string,
  flags: readonly string[] = [],
): Promise<Subject & { startMs: number }> {
  const port = await findFreePort()
  const { command, logFile } = toServe(folder, port, toRoutedCatalog(upstream))
  const began = performance.now()
  const process = startProcess([...command, ...flags], logFile)
  const origin = `http://127.0.0.1:${port}`
  await waitUntilUp(`${origin}/healthz`, {}, 60_000, 1)
  const startMs = performance.now() - began
  return { ...(await up({ name: 'tollgate', process, origin, key, model: MODEL })), startMs }
}
