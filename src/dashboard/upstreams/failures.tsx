/** Why an upstream failed: the newest error in full, and the last requests that did not end well. */
import type { ShownUpstream } from '../../documents/upstream.ts'
import { toHref } from '../address/address.ts'
import { When } from '../ui/figure.tsx'
import { Problem } from '../ui/notice.tsx'
import { useFailures } from './data.ts'

export function Failures({ of: { id, last_error: error } }: { of: ShownUpstream }) {
  const { data: requests, problem, reload } = useFailures(id)
  const link = (extra: string) => toHref(`/requests?upstream=${encodeURIComponent(id)}${extra}`)
  return (
    <section class="part">
      <h3>Errors</h3>
      {error === null ? (
        <p class="dim">None since the server was started.</p>
      ) : (
        <div class="last-error">
          <p class="dim">
            The last one, <When ms={error.at_ms} />
          </p>
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard */}
          <pre tabIndex={0}>{error.message}</pre>
        </div>
      )}
      {problem && <Problem of={problem} retry={reload} />}
      {requests !== null && requests.length > 0 && (
        <ul class="failures">
          {requests.map((request) => (
            <li key={request.id}>
              <a href={toHref(`/requests/${request.id}`)}>
                <When ms={request.created_ms} />
              </a>
              <span>
                {request.model} <span class="dim">{request.key ?? ''}</span>
              </span>
              <span class="dim">
                {[request.http_status, request.error_code ?? request.status].filter(Boolean).join(' ')}
              </span>
            </li>
          ))}
        </ul>
      )}
      <p class="links">
        <a href={link('')}>All requests to it</a>
        {requests !== null && requests.length > 0 && <a href={link('&errors=true')}>Those that failed</a>}
      </p>
    </section>
  )
}
