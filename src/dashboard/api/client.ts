/**
 * The admin API as pages ask it: typed by its routes, and every failure one of a kind, in a sentence. What it answers is nobody's to
 * keep: a session that has ended shows the way in again, whatever page is open.
 */
import { treaty } from '@elysiajs/eden'
import type { AdminApi } from '../../admin/app.ts'
import { Refusal } from './refusal.ts'
import { endSession } from './session.ts'

/** Dates stay what they are: texts and numbers. */
export const api = treaty<AdminApi>(location.origin, { parseDate: false }).admin.api

interface Answer<T> {
  data: T | null
  error: { value: unknown } | null
  status: number
}

/** What the API answers. Throws a Refusal. */
export async function ask<T>(answering: Promise<Answer<T>>): Promise<T> {
  const { data, error, status } = await answering.catch(() => {
    throw UNREACHABLE()
  })
  if (error === null) return data as T
  const refusal = toRefusal(error.value, status)
  if (refusal.kind === 'signed_out') endSession()
  throw refusal
}

/** Has an edit refused once what it is made from has changed (`revision` of the document that a form was opened with). */
export const ifMatch = (revision: string | undefined) => ({
  headers: revision === undefined ? {} : { 'if-match': `"${revision}"` },
})

export const UNREACHABLE = () =>
  new Refusal('The server does not answer. Where it is being started anew, try again in a moment.', 'unreachable')

function toRefusal(value: unknown, status: number): Refusal {
  const error = typeof value === 'object' && value !== null && 'error' in value ? value.error : null
  if (typeof error === 'object' && error !== null && 'message' in error && 'kind' in error) {
    const field = 'field' in error && typeof error.field === 'string' ? error.field : null
    return new Refusal(String(error.message), String(error.kind), field)
  }
  // A proxy's own page, or nothing at all.
  if (status >= 500 && status !== 503)
    return new Refusal(`Something on the way to the server failed (${status}).`, 'failed')
  return UNREACHABLE()
}
