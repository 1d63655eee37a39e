/** Usage, requests, and who changed what: of everybody's keys, and of a member's own. */
import { AuditPage, ExplainedRequest, Failures, RequestPage, Usage } from '../../documents/schemas/ledger.ts'
import type { RouteWords, Words } from './route-words.ts'

const NAMED = ['key_not_found', 'key_ambiguous', 'team_not_found', 'team_ambiguous'] as const

const usage: RouteWords = {
  summary: 'Tells who spent what',
  description: 'Grouped by one or two of key, team, model, upstream, endpoint, user, day and hour.',
  answer: Usage,
  errors: ['report_too_long', ...NAMED],
}
const failures: RouteWords = {
  summary: 'Tells which requests did not end well, by error code',
  description:
    'By the UTC hour or day in which they were created, as far back as requests are kept. `limit` is of codes.',
  answer: Failures,
  errors: ['report_too_long', ...NAMED],
}
const list: RouteWords = {
  summary: 'Lists requests, newest first, page by page',
  answer: RequestPage,
  errors: ['report_too_long', ...NAMED],
}
const live: RouteWords = {
  summary: 'Follows requests as they finish',
  description: 'Server-sent events, each with a request as lists have it, and why its upstream failed as `reason`.',
  answer: null,
  operation: {
    responses: {
      200: { description: 'The stream.', content: { 'text/event-stream': { schema: { type: 'string' } } } },
    },
  },
  errors: NAMED,
  ownErrors: { too_many_tails: 429 },
}
const one: RouteWords = {
  summary: 'Explains a request: its calls, and how its charge comes about',
  answer: ExplainedRequest,
  errors: ['report_too_long', 'request_not_found', 'request_removed', 'request_ambiguous'],
}

/** The same of keys of a member's own. */
const toOwn = (words: RouteWords): RouteWords => ({
  ...words,
  description: [words.description, "Of a member's own keys alone."].filter(Boolean).join(' '),
  errors: [...(words.errors ?? []), 'no_team'],
})

export const LEDGER = {
  'GET /usage': usage,
  'GET /failures': failures,
  'GET /requests': list,
  'GET /requests/live': live,
  'GET /requests/:id': one,
  'GET /own/usage': toOwn(usage),
  'GET /own/requests': toOwn(list),
  'GET /own/requests/live': toOwn(live),
  'GET /own/requests/:id': toOwn(one),
  'GET /audit': { summary: 'Lists who changed what, newest first', answer: AuditPage, errors: ['report_too_long'] },
} satisfies Words
