/** Sessions: where somebody has signed in, each to be ended. */
import { Button } from '../ui/button.tsx'
import { When } from '../ui/figure.tsx'
import { tell } from '../ui/notice.tsx'
import { endSession, type PersonSession } from './data.ts'
import { toBrowser } from './words.ts'

export const Sessions = ({ of: sessions }: { of: readonly PersonSession[] }) => (
  <ul class="lines">
    {sessions.map(({ id, agent, address, created_ms, seen_ms, is_current }) => (
      <li key={id}>
        <span>
          <span title={agent}>{toBrowser(agent)}</span>{' '}
          <span class="dim">
            from {address}, since <When ms={created_ms} />, seen <When ms={seen_ms} />
          </span>
        </span>
        {is_current ? (
          <span class="dim">this one</span>
        ) : (
          <Button onClick={() => end(id)} aria-label={`End the session of ${toBrowser(agent)} from ${address}`}>
            End
          </Button>
        )}
      </li>
    ))}
  </ul>
)

const end = (id: string) =>
  endSession(id).then(
    () => tell('The session is ended.'),
    (error: Error) => tell(error.message, 'bad'),
  )
