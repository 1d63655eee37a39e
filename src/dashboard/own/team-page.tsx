/** The team of a member: what their keys may at most, and share with the others'. */
import { toHref } from '../address/address.ts'
import { api, ask } from '../api/client.ts'
import { useLoaded } from '../api/loaded.ts'
import { SharedFacts, Spent } from '../keys/shared-facts.tsx'
import { Page } from '../shell/page.tsx'
import { FactsRoom, Unread } from '../ui/unread.tsx'

const FRESH_MS = 15_000

const useTeam = () => useLoaded('own/team', () => ask(api.own.team.get()), { everyMs: FRESH_MS })

export function OwnTeamPage() {
  const { data: team, problem, reload } = useTeam()
  return (
    <Page title={team === null ? 'Team' : `Team ${team.name}`}>
      <Unread of={team} problem={problem} retry={reload}>
        <FactsRoom />
      </Unread>
      {team !== null && (
        <div class="sections narrow">
          <Spent of={team} />
          <section class="panel">
            <h2>What its keys may</h2>
            <p class="dim">
              The budget and the limits hold for all keys of the team together, yours among them. Each key has its own
              beside them.
            </p>
            <dl class="facts">
              <SharedFacts of={team} />
              <dt>Your keys</dt>
              <dd>{team.max_keys === null ? 'as many as you like' : `${team.max_keys} in force at most`}</dd>
            </dl>
            <p>
              <a href={toHref('/models')}>The models that you may use</a>
            </p>
          </section>
        </div>
      )}
    </Page>
  )
}
