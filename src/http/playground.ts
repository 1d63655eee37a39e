/**
 * Chat for somebody who has signed in, as `POST /v1/chat/completions` answers it: by a key of theirs that has no secret. Who asks is
 * found out before (`admin/playground.ts`), and nothing of the body is read until then.
 */
import { GatewayError, internalError } from '../domain/error.ts'
import type { Key } from '../domain/snapshot.ts'
import { chat } from '../formats/chat/chat.ts'
import type { RequestHeaders } from '../gateway/body.ts'
import { type HandleDeps, handle } from '../gateway/handle.ts'
import { IDLE_SECONDS } from './doors.ts'
import { answerError } from './error-response.ts'
import type { Listener } from './instance.ts'

/** @param app the instance that has the connections. */
export const createPlayground =
  (deps: HandleDeps, app: Listener) =>
  async (request: Request, headers: RequestHeaders, owner: Key): Promise<Response> => {
    try {
      return await handle(deps, chat, {
        ...{ request, headers, owner, token: null, ipOf: () => null },
        liftIdleLimit: () => app.server?.timeout(request, 0),
        restoreIdleLimit: () => app.server?.timeout(request, IDLE_SECONDS),
      })
    } catch (error) {
      return answerError(deps, request, error instanceof GatewayError ? error : internalError(error))
    }
  }
