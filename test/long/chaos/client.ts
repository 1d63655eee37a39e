/** One chaos request, sent in its client's manner, and its outcome. */
import type { KeyName } from './catalog.ts'
import type { RequestPlan } from './plan.ts'
import { exchange, type RawAnswer, toHead } from './wire.ts'

/** `lost`: ended without a complete response; `left`: the client ended it. Times are `performance.now()`. */
export interface Outcome {
  plan: RequestPlan
  end: 'answered' | 'lost' | 'left'
  sentMs: number
  endedMs: number
  status: number
  headers: Headers
  text: string
  why: string
}

/** A well-formed key that doesn't exist. */
export const WRONG_KEY = `sk-tg-${'0123456789'.repeat(4).slice(0, 38)}`

export async function ask(port: number, plan: RequestPlan, secrets: ReadonlyMap<KeyName, string>): Promise<Outcome> {
  const sentMs = performance.now()
  const secret = plan.key === null ? null : plan.key === 'wrong' ? WRONG_KEY : secrets.get(plan.key)
  const headers = {
    'content-type': plan.refusal?.code === 'unsupported_content_type' ? 'text/plain' : 'application/json',
    ...(secret ? { authorization: `Bearer ${secret}` } : {}),
  }
  const told = plan.manner.kind === 'plain' ? await fetchIt(port, plan, headers) : await exchangeIt(port, plan, headers)
  return { plan, sentMs, endedMs: performance.now(), ...told }
}

type Told = Pick<Outcome, 'end' | 'status' | 'headers' | 'text' | 'why'>

async function fetchIt(port: number, plan: RequestPlan, headers: Record<string, string>): Promise<Told> {
  const told: Told = { end: 'lost', status: 0, headers: new Headers(), text: '', why: '' }
  try {
    const { method, path, body } = plan
    const sent = method === 'GET' ? { method, headers } : { method, headers, body }
    const response = await fetch(`http://127.0.0.1:${port}${path}`, sent)
    told.status = response.status
    told.headers = response.headers
    told.text = await response.text()
    told.end = 'answered'
  } catch (error) {
    told.why = error instanceof Error && 'code' in error ? String(error.code) : String(error)
  }
  return told
}

async function exchangeIt(port: number, plan: RequestPlan, headers: Record<string, string>): Promise<Told> {
  const { method, path, body, manner } = plan
  const answer: RawAnswer = await exchange(port, toHead(method, path, headers, Buffer.byteLength(body)), body, manner)
  const end = answer.complete ? 'answered' : manner.kind === 'leaves' ? 'left' : 'lost'
  return { end, status: answer.status, headers: answer.headers, text: answer.text, why: end === 'lost' ? 'closed' : '' }
}
