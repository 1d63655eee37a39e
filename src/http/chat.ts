/** `POST /v1/chat/completions`. The body stays raw: the walk reads, checks and answers it (platform-notes 3.1). */
import { Elysia } from 'elysia'
import { type WalkDeps, walk } from '../gateway/handle.ts'
import { bearerToken, toToken } from './bearer.ts'

export interface ChatDeps extends WalkDeps {
  /** Sets after how many seconds of silence the connection of a request is closed; 0 is never. */
  setIdleLimit(request: Request, seconds: number): void
}

/** 255 is the most that Bun takes. */
export const IDLE_SECONDS = 255

export const chatController = (deps: ChatDeps) =>
  new Elysia({ name: 'chat' }).use(bearerToken()).post(
    '/v1/chat/completions',
    ({ request, headers, bearer }) =>
      walk(deps, {
        request,
        headers,
        token: toToken(bearer, headers),
        lift: () => deps.setIdleLimit(request, 0),
        restore: () => deps.setIdleLimit(request, IDLE_SECONDS),
      }),
    { parse: 'none' },
  )
