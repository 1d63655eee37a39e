/** Requests other than chats, and their results, in memory for as long as the tab is open. */
import { computed, signal } from '@preact/signals'
import type { JsonObject } from '../../domain/json.ts'
import type { OtherEndpoint } from '../../domain/task.ts'

export type Typed = Readonly<Record<string, string>>

export interface Made {
  id: number
  endpoint: OtherEndpoint
  model: string
  typed: Typed
  /** Name of the sent file. */
  file: string | null
  json: JsonObject
  tookMs: number
  nanoUsd: number | null
  /** True for a model without a price for its output. */
  isUnpriced: boolean
  requestId: string | null
}

/** Newest first. */
export const made = signal<readonly Made[]>([])
export const working = signal<number | null>(null)
export const isWorking = computed(() => working.value !== null)

/** Form values. */
export const typed = signal<Partial<Record<OtherEndpoint, Typed>>>({})
/** Selected files by field name, so that selecting an image keeps the audio. */
export const files = { file: signal<File | null>(null), image: signal<File | null>(null) }

export function forgetMade(): void {
  for (const { json } of made.value) if (String(json.url).startsWith('blob:')) URL.revokeObjectURL(String(json.url))
  made.value = []
}
