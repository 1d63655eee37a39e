/** How a stream that passed as its upstream said it ends where it has failed: as one of the Responses API does. Pure. */
import type { GatewayError } from '../../domain/error.ts'
import { asObject, type JsonObject, parseJson, toLine } from '../../domain/json.ts'
import type { Passed } from '../native.ts'
import { toFailure } from './failure.ts'

/** The response as it was begun, failed, under the number after the last one. */
export function toNativeFailure(error: GatewayError, { identity, opening, last }: Passed): string {
  const { id, created, model } = identity
  const begun = asObject(read(opening).response) ?? { id: `resp_${id}`, object: 'response', created_at: created, model }
  const number = read(last).sequence_number
  const event = {
    type: 'response.failed',
    sequence_number: typeof number === 'number' ? number + 1 : 0,
    response: { ...begun, status: 'failed', error: toFailure(error), output: [] },
  }
  return `event: response.failed\ndata: ${toLine(event)}\n\n`
}

function read(data: string | null): JsonObject {
  try {
    return (data === null ? null : asObject(parseJson(data))) ?? {}
  } catch {
    return {}
  }
}
