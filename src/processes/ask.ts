/** One question to a model server that was started here, by its own key: not by `fetch`, which would go through a proxy where there is one. */
import { request } from 'node:http'
import type { Launched } from './child.ts'

export interface Answer {
  status: number
  text: string
}

/** Of all of it: a server may send a byte now and then. */
const MOST_MS = 5_000
/** What it says of itself is a few kilobytes, with the template of its chats. */
const MOST_CHARS = 4 * 1024 * 1024

/**
 * Rejects where it cannot be reached, says too much, or has not said all within 5 s.
 * @param body JSON that is sent by POST; left out for a GET.
 */
export function ask({ port, key }: Pick<Launched, 'port' | 'key'>, path: string, body?: string): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>()
  const headers = {
    ...{ authorization: `Bearer ${key}`, accept: 'application/json', connection: 'close' },
    ...(body === undefined ? {} : { 'content-type': 'application/json' }),
  }
  const method = body === undefined ? 'GET' : 'POST'
  const asked = request({ host: '127.0.0.1', port, path, method, headers, agent: false }, (response) => {
    let text = ''
    response.setEncoding('utf8')
    response.on('data', (piece: string) => {
      text += piece
      if (text.length > MOST_CHARS) asked.destroy(new Error('it says too much of itself'))
    })
    response.on('end', () => resolve({ status: response.statusCode ?? 0, text }))
    response.on('error', reject)
  })
  asked.on('error', reject)
  asked.end(body)
  const timer = setTimeout(() => asked.destroy(new Error('it did not answer in time')), MOST_MS)
  return promise.finally(() => clearTimeout(timer))
}
