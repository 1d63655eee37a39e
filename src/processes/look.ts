/**
 * Whether a server that was started can be asked, and is the one that was started: somebody else's may answer at its port, such as
 * one that an earlier process has left behind.
 */
import type { ProcessSpec } from '../domain/model-server.ts'
import type { Launched } from './child.ts'
import { isNamed, toNamedModel } from './command.ts'

/** `unsure`: it answers, and says nothing by which it could be told apart. `foreign`: it is another one. */
export interface Look {
  state: 'ready' | 'sleeping' | 'unsure' | 'loading' | 'foreign'
}

const LOOK_MS = 5_000

/** Never throws. */
export async function lookAt(server: Launched, spec: ProcessSpec): Promise<Look> {
  const base = `http://127.0.0.1:${server.port}`
  const ask = (path: string) =>
    fetch(`${base}${path}`, {
      headers: { authorization: `Bearer ${server.key}`, accept: 'application/json' },
      redirect: 'manual',
      keepalive: false,
      signal: AbortSignal.timeout(LOOK_MS),
    })
  try {
    const health = await ask(spec.health)
    await health.body?.cancel()
    if (isRefused(health)) return { state: 'foreign' }
    if (health.status !== 200) return { state: 'loading' }
    const answer = await ask('/props')
    if (isRefused(answer)) return { state: 'foreign' }
    const props: unknown = answer.ok ? await answer.json().catch(() => null) : await answer.body?.cancel()
    if (!isRecord(props)) return { state: 'unsure' }
    const isOurs = isNamed(toNamedModel(server.words), props)
    if (isOurs === null) return { state: 'unsure' }
    return { state: !isOurs ? 'foreign' : props.is_sleeping === true ? 'sleeping' : 'ready' }
  } catch {
    return { state: 'loading' }
  }
}

/** It does not know our key. */
const isRefused = ({ status }: Response) => status === 401 || status === 403

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
