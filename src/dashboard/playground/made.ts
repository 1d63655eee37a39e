/** Requests other than chats, and what they made, in memory for as long as the tab is open. */
import { computed, signal } from '@preact/signals'
import type { JsonObject } from '../../domain/json.ts'
import type { OtherEndpoint } from '../../domain/task.ts'

export type Typed = Readonly<Record<string, string>>

export interface Made {
  id: number
  endpoint: OtherEndpoint
  model: string
  typed: Typed
  /** Of the file that was sent. */
  file: string | null
  json: JsonObject
  tookMs: number
  nanoUsd: number | null
  /** Of a model without a price for what it makes. */
  isUnpriced: boolean
  requestId: string | null
}

/** Newest first. */
export const made = signal<readonly Made[]>([])
export const working = signal<number | null>(null)
export const isWorking = computed(() => working.value !== null)

/** What is in the forms. */
export const typed = signal<Partial<Record<OtherEndpoint, Typed>>>({})
/** What is chosen, by the field's name: audio stays where an image is chosen. */
export const files = { file: signal<File | null>(null), image: signal<File | null>(null) }

export function forgetMade(): void {
  for (const { json } of made.value) if (String(json.url).startsWith('blob:')) URL.revokeObjectURL(String(json.url))
  made.value = []
}
