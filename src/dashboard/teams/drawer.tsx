/** One team: what it has spent, what it may, its keys, and changing it. */
import { useState } from 'preact/hooks'
import type { KeyDocument, TeamDocument } from '../../documents/key.ts'
import { toHref } from '../address/address.ts'
import { may } from '../api/session.ts'
import { SharedFacts, Spent } from '../keys/shared-facts.tsx'
import { STATUS_KINDS } from '../keys/words.ts'
import { Button } from '../ui/button.tsx'
import { Id } from '../ui/copy.tsx'
import { EditForm } from '../ui/edit-form.tsx'
import { Fact, TimeFact } from '../ui/facts.tsx'
import { Money, State } from '../ui/figure.tsx'
import { useForm, useOpened } from '../ui/form.tsx'
import { tell } from '../ui/notice.tsx'
import { Overlay } from '../ui/overlay.tsx'
import { FactsRoom, Unread } from '../ui/unread.tsx'
import { editTeam, useTeam } from './data.ts'
import { TeamFields } from './fields.tsx'
import { toValues } from './form-values.ts'

export function TeamDrawer({ id, onClose }: { id: string; onClose(): void }) {
  const { data: team, problem, reload } = useTeam(id)
  const [isEdited, setEdited] = useState(false)
  return (
    <Overlay kind="drawer" title={team?.name ?? 'Team'} onClose={onClose}>
      <Unread of={team} problem={problem} retry={reload}>
        <FactsRoom />
      </Unread>
      {team !== null && (
        <>
          <p class="drawer-line">
            <span class="dim">id</span> <Id id={team.id} />
          </p>
          <Spent of={team} />
          {isEdited ? (
            <Edit of={team} onDone={() => setEdited(false)} />
          ) : (
            <>
              <Facts of={team} />
              {may('editor') && (
                <div class="form-foot">
                  <Button onClick={() => setEdited(true)}>Edit</Button>
                </div>
              )}
              <Keys of={team.keys} />
            </>
          )}
        </>
      )}
    </Overlay>
  )
}

const Facts = ({ of: team }: { of: TeamDocument }) => (
  <dl class="facts">
    <SharedFacts of={team} />
    <Fact name="Members">
      {team.max_keys === null ? 'as many keys each as they like' : `${team.max_keys} keys each at most`}
    </Fact>
    <TimeFact name="Made" ms={team.created_ms} />
  </dl>
)

function Edit({ of, onDone }: { of: TeamDocument; onDone(): void }) {
  const team = useOpened(of)
  const form = useForm(toValues(team), async (values) => {
    await editTeam(team, values)
    tell('Changed. It holds from the next request on.')
    onDone()
  })
  return (
    <EditForm of={form} onCancel={onDone}>
      <TeamFields form={form} />
    </EditForm>
  )
}

/** Those in force first; of the others, how many there are. */
function Keys({ of: keys }: { of: readonly KeyDocument[] }) {
  const shown = keys.filter(({ status, hidden }) => status === 'active' && !hidden)
  const over = keys.filter(({ status }) => status !== 'active').length
  return (
    <section class="drawer-part">
      <h3>Keys</h3>
      {shown.length === 0 && (
        <p class="dim">
          No key in force is of this team. A key's team is said when it is made, or later in its drawer.
        </p>
      )}
      <ul class="lines">
        {shown.map((key) => (
          <li key={key.id}>
            <a href={toHref(`/keys?key=${key.id}`)}>{key.name}</a>
            {key.owner !== null && <span class="dim">{key.owner}</span>}
            <State kind={STATUS_KINDS[key.status]}>{key.status}</State>
            <span class="figure-text">
              <Money nanoUsd={key.spent_month_nano_usd} />
            </span>
          </li>
        ))}
      </ul>
      {over > 0 && (
        <p class="hint">
          And {over === 1 ? 'one' : over} that ended or {over === 1 ? 'was' : 'were'} revoked.
        </p>
      )}
    </section>
  )
}
