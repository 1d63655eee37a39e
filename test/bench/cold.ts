/**
 * How soon the binary answers after it was started: its health check and a whole chat answer, over a folder that was
 * served before and over an empty one. Medians over several runs.
 */
import { mkdirSync, mkdtempSync } from 'node:fs'
import { join } from 'node:path'
import { toChatBody } from './json-load.ts'
import { findFreePort, rssMegabytes, startProcess, waitUntilUp } from './processes.ts'
import { MODEL, readFirstKey, toServe } from './subjects.ts'
import { median } from './table.ts'

export interface ColdResult {
  runs: number
  /** From spawn to the first 200. */
  preparedHealthMs: number
  preparedChatMs: number
  emptyHealthMs: number
  emptyChatMs: number
  idleRssMegabytes: number
}

interface Run {
  healthMs: number
  chatMs: number
  rssMegabytes: number
  key: string
}

export async function measureCold(root: string, upstream: string, runs: number): Promise<ColdResult> {
  const folder = join(root, 'cold')
  mkdirSync(folder, { recursive: true })
  const empty: Run[] = []
  const prepared: Run[] = []
  for (let i = 0; i < runs; i += 1) {
    const data = mkdtempSync(join(folder, 'run-'))
    const first = await startOnce(data, upstream, null)
    empty.push(first)
    prepared.push(await startOnce(data, upstream, first.key))
  }
  return {
    runs,
    preparedHealthMs: median(prepared.map(({ healthMs }) => healthMs)),
    preparedChatMs: median(prepared.map(({ chatMs }) => chatMs)),
    emptyHealthMs: median(empty.map(({ healthMs }) => healthMs)),
    emptyChatMs: median(empty.map(({ chatMs }) => chatMs)),
    idleRssMegabytes: median(prepared.map((run) => run.rssMegabytes)),
  }
}

async function startOnce(folder: string, upstream: string, knownKey: string | null): Promise<Run> {
  const port = await findFreePort()
  const { command, logFile } = toServe(folder, port, upstream)
  const began = performance.now()
  const started = startProcess(knownKey === null ? [...command, '--first-key'] : command, logFile)
  try {
    const origin = `http://127.0.0.1:${port}`
    await waitUntilUp(`${origin}/healthz`, {}, 10_000, 1)
    const healthMs = performance.now() - began
    const key = knownKey ?? (await readFirstKey(logFile))
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    const chat = { method: 'POST', headers, body: toChatBody(MODEL) }
    await (await waitUntilUp(`${origin}/v1/chat/completions`, chat, 10_000, 1)).text()
    const chatMs = performance.now() - began
    await Bun.sleep(1_000)
    return { healthMs, chatMs, rssMegabytes: rssMegabytes(started.pid), key }
  } finally {
    await started.stop()
  }
}
