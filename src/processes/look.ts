/**
 * Whether a server that was started can be asked, and is the one that was started: somebody else's may answer at its port, such as
 * one that an earlier process has left behind.
 */
import type { ProcessSpec } from '../domain/model-server.ts'
import { type Answer, ask } from './ask.ts'
import type { Launched } from './child.ts'
import { isNamed, toNamedModel } from './command.ts'

/** `unsure`: it answers, and says nothing by which it could be told apart. `foreign`: it is another one. */
export interface Look {
  state: 'ready' | 'sleeping' | 'unsure' | 'loading' | 'foreign'
}

/** Never throws. */
export async function lookAt(server: Launched, spec: ProcessSpec): Promise<Look> {
  try {
    const health = await ask(server, spec.health)
    if (isRefused(health)) return { state: 'foreign' }
    if (health.status !== 200) return { state: 'loading' }
    const answer = await ask(server, '/props')
    if (isRefused(answer)) return { state: 'foreign' }
    const props = answer.status === 200 ? toRecord(answer.text) : null
    const isOurs = props && isNamed(toNamedModel(server.words), props)
    if (isOurs === null) return { state: 'unsure' }
    return { state: !isOurs ? 'foreign' : props?.is_sleeping === true ? 'sleeping' : 'ready' }
  } catch {
    return { state: 'loading' }
  }
}

/** It does not know our key. */
const isRefused = ({ status }: Answer) => status === 401 || status === 403

function toRecord(text: string): Readonly<Record<string, unknown>> | null {
  try {
    const json: unknown = JSON.parse(text)
    return typeof json === 'object' && json !== null ? Object.fromEntries(Object.entries(json)) : null
  } catch {
    return null
  }
}
