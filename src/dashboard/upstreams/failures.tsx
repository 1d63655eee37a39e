/** Why an upstream failed: the newest error in full, and the last requests that did not end well. */
import type { ShownUpstream } from '../../documents/upstream.ts'
import { toHref } from '../address/address.ts'
import { When } from '../ui/figure.tsx'
import { Problem } from '../ui/notice.tsx'
import { useFailures } from './data.ts'

export const LastError = ({ of: { last_error: error } }: { of: ShownUpstream }) => (
  <section class="part">
    <h3>Its last error</h3>
    {error === null ? (
      <p class="dim">None since the server was started.</p>
    ) : (
      <div class="last-error">
        <p class="dim">
          <When ms={error.at_ms} />
        </p>
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard */}
        <pre tabIndex={0}>{error.message}</pre>
      </div>
    )}
  </section>
)

/** The last of the drawer: what is read for it alone moves nothing when it comes. */
export function Failures({ id }: { id: string }) {
  const { data: requests, problem, reload } = useFailures(id)
  const link = (extra: string) => toHref(`/requests?upstream=${encodeURIComponent(id)}${extra}`)
  return (
    <section class="part">
      <h3>Requests to it</h3>
      <p class="links">
        <a href={link('')}>All of them</a>
        <a href={link('&state=errors')}>Those that failed</a>
      </p>
      {problem && <Problem of={problem} retry={reload} />}
      {requests !== null && (
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
    </section>
  )
}
