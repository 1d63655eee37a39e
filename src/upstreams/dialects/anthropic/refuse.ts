/** What this format has no words for. Another target of the model may have them: `attempt.ts` asks it. Pure. */
import { UpstreamError } from '../../../domain/error.ts'

/** @param param path of the field. */
export const unsupported = (param: string, why: string) =>
  new UpstreamError('status', `Unsupported value: '${param}' is not supported with this model: ${why}`, {
    status: 400,
    code: 'unsupported_value',
    param,
    retryable: false,
  })
