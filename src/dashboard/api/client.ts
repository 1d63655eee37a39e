/**
 * The admin API as pages ask it: typed by its routes, and every failure one of a kind, in a sentence. What it answers is nobody's to
 * keep: a session that has ended shows the way in again, whatever page is open.
 */
import { treaty } from '@elysiajs/eden'
import type { AdminApi } from '../../admin/app.ts'
import { readRefusal, UNREACHABLE } from './refusal.ts'
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
  const refusal = readRefusal(error.value, status)
  if (refusal.kind === 'signed_out') endSession()
  throw refusal
}

/** Has an edit refused once what it is made from has changed (`revision` of the document that a form was opened with). */
export const ifMatch = (revision: string | undefined) => ({
  headers: revision === undefined ? {} : { 'if-match': `"${revision}"` },
})
