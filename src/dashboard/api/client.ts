/** Typed admin API client. Failures are thrown as `Refusal`; an expired session returns to sign-in. */
import { treaty } from '@elysiajs/eden'
import type { AdminApi } from '../../admin/app.ts'
import { learnClock } from './clock.ts'
import { readRefusal, UNREACHABLE } from './refusal.ts'
import { endSession } from './session.ts'

/** Dates stay strings and numbers. */
export const api = treaty<AdminApi>(location.origin, {
  parseDate: false,
  fetcher: (async (...asked: Parameters<typeof fetch>) => {
    const response = await fetch(...asked)
    learnClock(response.headers.get('date'))
    return response
  }) as typeof fetch,
}).admin.api

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
