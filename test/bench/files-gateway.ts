/** The gateway that `files.ts` asks: in this process, with limits and routes as in the benchmark. */
import { resolve } from 'node:path'
import { startApp } from '../support/app.ts'
import { startUpstream } from '../support/upstream.ts'
import { toChatBody } from './json-load.ts'
import { waitUntilUp } from './processes.ts'
import { createLimitedKey, MODEL, toRoutedCatalog } from './tollgate.ts'

export interface RoutedGateway {
  /** Makes one request and resolves once its row is settled. Throws where it is not answered with 200. */
  ask(kind: 'streamed' | 'whole'): Promise<void>
  stop(): Promise<void>
}

export async function startRoutedGateway(): Promise<RoutedGateway> {
  const upstream = await startUpstream()
  const app = await startApp({ catalog: toRoutedCatalog(new URL(upstream.url).origin) })
  const key = await createLimitedKey([process.execPath, resolve(import.meta.dir, '../../src/main.ts')], app.dataFolder)
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  await waitUntilUp(`${app.baseUrl}/models`, { headers })
  let asked = 0
  return {
    async ask(kind) {
      const body = toChatBody(MODEL, { stream: kind === 'streamed' })
      const answer = await fetch(`${app.baseUrl}/chat/completions`, { method: 'POST', headers, body })
      const text = await answer.text()
      if (!answer.ok) throw new Error(`${answer.status}: ${text}`)
      asked += 1
      await app.settled(asked)
    },
    async stop() {
      await app.stop()
      await upstream.stop()
    },
  }
}
