/** Sends requests other than chats. */
import { asObject, type JsonObject } from '../../domain/json.ts'
import type { OtherEndpoint } from '../../domain/task.ts'
import { Refusal, readRefusal, UNREACHABLE } from '../api/refusal.ts'
import { endSession } from '../api/session.ts'
import { lacksPrice } from '../figures/figures.ts'
import { KINDS, toFields } from './kinds.tsx'
import { files, type Made, made, type Typed, working } from './made.ts'
import { ADDRESS, begin, finish } from './run.ts'
import type { OfferedModel } from './state.ts'
import { toTooLong } from './thread.ts'

let count = 0

/** @throws Refusal */
export async function make(
  endpoint: OtherEndpoint,
  { slug: model, pricing, output_modalities: outputs }: OfferedModel,
  typed: Typed,
): Promise<void> {
  const kind = KINDS[endpoint]
  const file = kind.file ? files[kind.file.name].value : null
  const body = toBody(endpoint, model, typed, file)
  const controller = new AbortController()
  // Answers of chats have positive IDs.
  const id = -++count
  working.value = id
  const startedMs = performance.now()
  begin(id, controller)
  try {
    const response = await fetch(`${ADDRESS}/${endpoint}`, { method: 'POST', body, signal: controller.signal })
    if (!response.ok) throw toProblem(await response.json().catch(() => null), response.status)
    const json = await (kind.read?.(response, typed) ?? readJson(response))
    const nanoUsd = asObject(json.usage)?.cost_nano_usd
    const result: Made = {
      ...{ id, endpoint, model, typed, json, tookMs: performance.now() - startedMs },
      file: file?.name ?? null,
      nanoUsd: typeof nanoUsd === 'number' ? nanoUsd : null,
      isUnpriced: nanoUsd === 0 && lacksPrice(pricing, outputs),
      requestId: response.headers.get('x-request-id')?.replace(/^req_/, '') ?? null,
    }
    made.value = [result, ...made.value]
  } catch (error) {
    if (error instanceof Refusal) throw error
    if (controller.signal.aborted) throw new Refusal('Stopped. What the provider had made may be charged.', 'stopped')
    // Not of the kind `unreachable`, since a retry would be charged again.
    throw new Refusal(UNREACHABLE().message, 'failed')
  } finally {
    working.value = null
    finish(id)
  }
}

const readJson = async (response: Response): Promise<JsonObject> => asObject(await response.json()) ?? {}

function toBody(endpoint: OtherEndpoint, model: string, typed: Typed, file: File | null): FormData | Blob {
  const { file: taken, also } = KINDS[endpoint]
  const fields: JsonObject = { model, ...toFields(endpoint, typed), ...also }
  if (!taken) {
    const json = JSON.stringify(fields)
    const tooLong = toTooLong(json)
    if (tooLong !== null) throw new Refusal(tooLong, 'invalid')
    return new Blob([json], { type: 'application/json' })
  }
  if (file === null) throw new Refusal(`${taken.label}: choose one.`, 'invalid', taken.name)
  if (file.size > MAX_FILE_BYTES) throw new Refusal(`${file.name} is larger than 31 MB.`, 'invalid', taken.name)
  const form = new FormData()
  for (const [name, field] of Object.entries(fields)) form.append(name, String(field))
  form.append(taken.name, file, file.name)
  return form
}

/** Leaves bytes for the rest of the form. */
const MAX_FILE_BYTES = 31 * 1024 ** 2

/** `param` names the field. */
function toProblem(answer: unknown, status: number): Refusal {
  const refusal = readRefusal(answer, status)
  if (refusal.kind === 'signed_out') endSession()
  const { param } = asObject(asObject(answer)?.error) ?? {}
  const kind = refusal.kind === 'unreachable' ? 'failed' : refusal.kind
  return new Refusal(refusal.message, kind, typeof param === 'string' ? param : null)
}
