/**
 * Whether a server that was started can be asked, and is the one that was started: somebody else's may answer at its port, such as
 * one that an earlier process has left behind.
 */
import { get } from 'node:http'
import type { ProcessSpec } from '../domain/model-server.ts'
import type { Launched } from './child.ts'
import { isNamed, toNamedModel } from './command.ts'

/** `unsure`: it answers, and says nothing by which it could be told apart. `foreign`: it is another one. */
export interface Look {
  state: 'ready' | 'sleeping' | 'unsure' | 'loading' | 'foreign'
}

const LOOK_MS = 5_000
/** What it says of itself is a few kilobytes, with the template of its chats. */
const MOST_CHARS = 4 * 1024 * 1024

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

interface Answer {
  status: number
  text: string
}

/** Not by `fetch`, which would go through a proxy where there is one. */
function ask({ port, key }: Launched, path: string): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>()
  const headers = { authorization: `Bearer ${key}`, accept: 'application/json', connection: 'close' }
  const request = get({ host: '127.0.0.1', port, path, headers, agent: false }, (response) => {
    let text = ''
    response.setEncoding('utf8')
    response.on('data', (piece: string) => {
      text += piece
      if (text.length > MOST_CHARS) request.destroy(new Error('it says too much of itself'))
    })
    response.on('end', () => resolve({ status: response.statusCode ?? 0, text }))
    response.on('error', reject)
  })
  request.on('error', reject)
  // Of all of it: a server may send a byte now and then.
  const timer = setTimeout(() => request.destroy(new Error('it did not answer in time')), LOOK_MS)
  return promise.finally(() => clearTimeout(timer))
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
