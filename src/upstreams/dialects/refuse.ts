/**
 * What a vendor's format has no words for, told before anybody is asked, as OpenAI's API tells it: a field that is not taken at all
 * by one code, a value of a field that is by another. Another target of the model may take it: `attempt.ts` asks it. Pure.
 */
import { UpstreamError } from '../../domain/error.ts'

/** @param param path of the field. @param why a sentence, after a colon. */
export const unsupportedField = (param: string, why: string) => refusal('unsupported_parameter', param, why)

/** @param param path of the field whose value it is. @param why a sentence, after a colon. */
export const unsupportedValue = (param: string, why: string) => refusal('unsupported_value', param, why)

function refusal(code: 'unsupported_parameter' | 'unsupported_value', param: string, why: string): UpstreamError {
  const what = code === 'unsupported_value' ? 'value' : 'parameter'
  const message = `Unsupported ${what}: '${param}' is not supported with this model: ${why}`
  return new UpstreamError('status', message, { status: 400, code, param })
}
