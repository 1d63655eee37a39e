/** `POST /v1/chat/completions`. The body stays raw: Elysia would drop fields that its schema does not name. */
import { Elysia } from 'elysia'
import { chat } from '../formats/chat/chat.ts'
import { type HandleDeps, handle } from '../gateway/handle.ts'
import { bearerToken, toToken } from './instance.ts'

export interface ChatDeps extends HandleDeps {
  /** Sets after how many seconds of silence the connection of a request is closed; 0 is never. */
  setIdleLimit(request: Request, seconds: number): void
}

/** 255 is the most that Bun takes. */
export const IDLE_SECONDS = 255

export const chatController = (deps: ChatDeps) =>
  new Elysia({ name: 'chat' }).use(bearerToken()).post(
    '/v1/chat/completions',
    ({ request, headers, bearer }) =>
      handle(deps, chat, {
        request,
        headers,
        token: toToken(bearer, headers),
        liftIdleLimit: () => deps.setIdleLimit(request, 0),
        restoreIdleLimit: () => deps.setIdleLimit(request, IDLE_SECONDS),
      }),
    { parse: 'none' },
  )
