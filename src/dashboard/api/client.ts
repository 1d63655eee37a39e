/** Typed admin API client. Failures are thrown as `Refusal`; an ended session opens the sign-in dialog. */
import { treaty } from '@elysiajs/eden'
import type { AdminApi } from '../../admin/app.ts'
import { learnClock } from './clock.ts'
import { noteAnswer, noteLost } from './connection.ts'
import { readRefusal, UNREACHABLE } from './refusal.ts'
import { endSession } from './session.ts'

/** Longer than the slowest report, and the slowest check of an upstream. */
const ANSWER_MS = 120_000

const fetcher = Object.assign(
  async (url: string | URL | Request, init: RequestInit = {}) => {
    // Bad networks lose requests, and a page waits for a response before it sends the next request.
    const signals = [AbortSignal.timeout(ANSWER_MS), ...(init.signal ? [init.signal] : [])]
    try {
      const response = await fetch(url, { ...init, signal: AbortSignal.any(signals) })
      noteAnswer(response)
      learnClock(response.headers.get('date'))
      return response
    } catch (error) {
      noteLost()
      throw error
    }
  },
  { preconnect() {} },
)

/** Dates stay strings and numbers. */
export const api = treaty<AdminApi>(location.origin, { parseDate: false, fetcher }).admin.api

interface Answer<T> {
  data: T | null
  error: { value: unknown } | null
  status: number
}

/** @throws Refusal */
export async function ask<T>(answering: Promise<Answer<T>>): Promise<T> {
  const { data, error, status } = await answering.catch(() => {
    throw UNREACHABLE()
  })
  if (error === null) return data as T
  const refusal = readRefusal(error.value, status)
  if (refusal.kind === 'signed_out') endSession()
  throw refusal
}

/** Rejects an edit if the document has changed since the form opened with this `revision`. */
export const ifMatch = (revision: string | undefined) => ({
  headers: revision === undefined ? {} : { 'if-match': `"${revision}"` },
})
