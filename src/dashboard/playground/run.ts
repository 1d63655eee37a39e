/** Streams answers from the server; several may be in flight. */
import { signal } from '@preact/signals'
import { readRefusal, UNREACHABLE } from '../api/refusal.ts'
import { endSession } from '../api/session.ts'
import { announce } from '../ui/notice.tsx'
import { breakOff, createEventReader, isRecorded, stop, takeData, toFigures, toSpoken } from './stream.ts'
import { type Answer, isRunning, toTooLong } from './thread.ts'

const DRAWN_EVERY_MS = 50
const TICK_MS = 100

/** Updated while an answer is in flight. */
export const clock = signal(performance.now())

const running = new Map<number, AbortController>()
let ticking: ReturnType<typeof setInterval> | undefined

export function begin(id: number, controller: AbortController): void {
  running.set(id, controller)
  clock.value = performance.now()
  ticking ??= setInterval(() => {
    clock.value = performance.now()
  }, TICK_MS)
}

export function finish(id: number): void {
  running.delete(id)
  clock.value = performance.now()
  if (running.size > 0) return
  clearInterval(ticking)
  ticking = undefined
}

/** Stops an answer if it is in flight. */
export const end = (id: number): void => running.get(id)?.abort()

export function stopAll(): void {
  for (const controller of running.values()) controller.abort()
}

/** @param show called with each update of the answer and once at its end */
export async function run(first: Answer, body: object, show: (answer: Answer) => void): Promise<void> {
  let answer = first
  let timer: ReturnType<typeof setTimeout> | undefined
  const draw = () => {
    timer = undefined
    show(answer)
  }
  const take = (next: Answer) => {
    if (answer.firstMs === null && next.firstMs !== null) announce(toSpoken(next, toFigures(next, null, next.firstMs)))
    answer = next
    timer ??= setTimeout(draw, DRAWN_EVERY_MS)
  }
  const controller = new AbortController()
  begin(first.id, controller)
  try {
    await read(first, JSON.stringify(body), controller.signal, take)
  } catch (error) {
    const now = performance.now()
    if (controller.signal.aborted) answer = stop(answer, now)
    else answer = breakOff(answer, answer.requestId === null ? UNREACHABLE().message : 'Connection lost', now)
    // Network errors are TypeErrors; anything else is a bug of this page.
    if (!controller.signal.aborted && !(error instanceof TypeError)) console.error(error)
  }
  if (isRunning(answer)) answer = breakOff(answer, 'The connection closed early', performance.now())
  clearTimeout(timer)
  draw()
  finish(first.id)
  announce(toSpoken(answer, toFigures(answer, null, performance.now())))
}

export const ADDRESS = '/admin/api/playground'
const UNMET = 'The response does not match the schema.'

async function read(first: Answer, body: string, signal: AbortSignal, take: (answer: Answer) => void): Promise<void> {
  const tooLong = toTooLong(body)
  if (tooLong !== null) return take(breakOff(first, tooLong, performance.now()))
  const headers = { 'content-type': 'application/json' }
  const response = await fetch(ADDRESS, { method: 'POST', headers, body, signal })
  const requestId = response.headers.get('x-request-id')?.replace(/^req_/, '') ?? null
  if (!response.ok || response.body === null) {
    const refusal = readRefusal(await response.json().catch(() => null), response.status)
    take(breakOff({ ...first, requestId: isRecorded(refusal) ? requestId : null }, refusal.message, performance.now()))
    if (refusal.kind === 'signed_out') endSession()
    return
  }
  const isUnmet = response.headers.get('x-tollgate-schema') === 'unmet'
  let answer: Answer = { ...first, requestId, problem: isUnmet ? UNMET : null }
  take(answer)
  const toEvents = createEventReader()
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return
    const now = performance.now()
    for (const data of toEvents(value)) {
      answer = takeData(answer, data, now)
      if (!isRunning(answer)) break
    }
    take(answer)
    if (!isRunning(answer)) return void reader.cancel().catch(() => {})
  }
}
