/** What else clients of the Responses API ask for at its path, and are told: another transport, and answers by their ids. Pure. */
import { GatewayError } from '../domain/error.ts'
import { COUNTS, RESPONSES } from './doors.ts'

/** Null where no more can be said than that it is not there. */
export function whyNoResponses(request: Request, path: string): GatewayError | null {
  // Codex tries a WebSocket first: after 426 it goes on over HTTP at once, after anything else only when it has tried again and
  // again (openai/codex#43353).
  if (path === RESPONSES.path && request.headers.get('upgrade')?.toLowerCase() === 'websocket')
    return new GatewayError(
      'websocket_not_supported',
      `This gateway answers over HTTP alone: POST ${RESPONSES.path}, with "stream": true for events.`,
    )
  if (!path.startsWith(`${RESPONSES.path}/`) || COUNTS.some((count) => count.path === path)) return null
  if (path === `${RESPONSES.path}/compact`)
    return new GatewayError(
      'unknown_url',
      `Compaction is not supported: there is no ${path}. Ask for a summary in an ordinary request to POST ${RESPONSES.path}.`,
    )
  return new GatewayError(
    'unknown_url',
    `Nothing is found below ${RESPONSES.path}: this gateway keeps no answers. Send the whole input to POST ${RESPONSES.path} each time.`,
  )
}
