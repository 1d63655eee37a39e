/** The gateway of `files.ts`, in this process. */
import { resolve } from 'node:path'
import { startApp } from '../support/app.ts'
import { startUpstream } from '../support/upstream.ts'
import { toChatBody } from './json-load.ts'
import { waitUntilUp } from './processes.ts'
import { createLimitedKey, MODEL, toPlainCatalog, toRoutedCatalog } from './tollgate.ts'

export interface CountedGateway {
  /** Resolves once the response is read and its row is in the journal. Throws unless it is 200. */
  ask(kind: 'streamed' | 'whole'): Promise<void>
  stop(): Promise<void>
}

/** Routes and limits as in the benchmark; a plain one has a single route and no limits. */
export async function startCountedGateway({ plain }: { plain: boolean }): Promise<CountedGateway> {
  const upstream = await startUpstream()
  const { origin } = new URL(upstream.url)
  const app = await startApp({ catalog: plain ? toPlainCatalog(origin) : toRoutedCatalog(origin) })
  const program = [process.execPath, resolve(import.meta.dir, '../../src/main.ts')]
  const key = plain ? app.key() : await createLimitedKey(program, app.dataFolder)
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  await waitUntilUp(`${app.baseUrl}/models`, { headers })
  return {
    async ask(kind) {
      const body = toChatBody(MODEL, { stream: kind === 'streamed' })
      const answer = await fetch(`${app.baseUrl}/chat/completions`, { method: 'POST', headers, body })
      const text = await answer.text()
      if (!answer.ok) throw new Error(`${answer.status}: ${text}`)
    },
    async stop() {
      await app.stop()
      await upstream.stop()
    },
  }
}
