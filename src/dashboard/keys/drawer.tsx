/** One key: what it has spent, what it may, and what can be done with it. */
import { useState } from 'preact/hooks'
import type { KeyDocument } from '../../documents/key.ts'
import { isMember } from '../api/session.ts'
import { toDay } from '../figures/times.ts'
import { Button } from '../ui/button.tsx'
import { Id } from '../ui/copy.tsx'
import { EditForm } from '../ui/edit-form.tsx'
import { Fact, TimeFact } from '../ui/facts.tsx'
import { nowMs, State, When } from '../ui/figure.tsx'
import { useForm, useOpened } from '../ui/form.tsx'
import { tell } from '../ui/notice.tsx'
import { Overlay } from '../ui/overlay.tsx'
import { FactsRoom, Unread } from '../ui/unread.tsx'
import { editKey, mayChangeKeys, useKey } from './data.ts'
import { KeyFields } from './fields.tsx'
import { toValues } from './form-values.ts'
import { LastDays, LastRequests } from './lately.tsx'
import { RevokeDialog } from './revoke.tsx'
import { RotateDialog } from './rotate.tsx'
import { SharedFacts, Spent } from './shared-facts.tsx'
import { STATUS_KINDS, toCeilingTexts } from './words.ts'

export function KeyDrawer({ id, onClose }: { id: string; onClose(): void }) {
  const { data: key, problem, reload } = useKey(id)
  const [open, setOpen] = useState<'edit' | 'rotate' | 'revoke' | null>(null)
  const close = () => setOpen(null)
  return (
    <Overlay kind="drawer" title={key?.name ?? 'Key'} onClose={onClose}>
      <Unread of={key} problem={problem} retry={reload}>
        <FactsRoom />
      </Unread>
      {key !== null && (
        <>
          <p class="drawer-line">
            <State kind={STATUS_KINDS[key.status]}>{key.status}</State>
            <span class="dim">id</span> <Id id={key.id} />
          </p>
          <Spent of={key} />
          {open !== 'edit' && <LastDays of={key} />}
          {open === 'edit' ? <Edit of={key} onDone={close} /> : <Facts of={key} />}
          {open !== 'edit' && key.status !== 'revoked' && mayChangeKeys() && (
            <div class="form-foot">
              <Button onClick={() => setOpen('edit')}>Edit</Button>
              {key.status === 'active' && <Button onClick={() => setOpen('rotate')}>Rotate</Button>}
              <Button kind="bad" onClick={() => setOpen('revoke')}>
                Revoke
              </Button>
            </div>
          )}
          {open !== 'edit' && <LastRequests of={key} />}
          {open === 'rotate' && <RotateDialog of={key} onClose={close} />}
          {open === 'revoke' && <RevokeDialog of={key} onClose={close} />}
        </>
      )}
    </Overlay>
  )
}

function Facts({ of: key }: { of: KeyDocument }) {
  const ceilings = Object.entries(toCeilingTexts(key.ceilings))
  return (
    <dl class="facts">
      <SharedFacts of={key} />
      {key.owner !== null && !isMember() && <Fact name="Owner">{key.owner}</Fact>}
      <Fact name="Team">{key.team ?? 'none'}</Fact>
      <Fact name="Last used">
        {key.last_used_ms === null ? (
          'never'
        ) : (
          <>
            <When ms={key.last_used_ms} /> for <code>{key.last_model}</code>
          </>
        )}
      </Fact>
      <Fact name="Ends">{key.expires_ms === null ? 'never' : <When ms={key.expires_ms} />}</Fact>
      {key.allowed_ips.length > 0 && <Fact name="Used from">{key.allowed_ips.join(', ')}</Fact>}
      {ceilings.length > 0 && (
        <Fact name="Ceilings">
          {ceilings.map(([field, text]) => (
            <p key={field}>{text}</p>
          ))}
        </Fact>
      )}
      <Fact name="Secrets">
        {key.secrets.map(({ last_four, created_ms, expires_ms }) => (
          <p key={created_ms}>
            <code>…{last_four}</code> made <When ms={created_ms} />
            {expires_ms !== null && (
              <>
                , {expires_ms > nowMs.value ? 'ends' : 'ended'} <When ms={expires_ms} />
              </>
            )}
          </p>
        ))}
      </Fact>
      <TimeFact name="Made" ms={key.created_ms} />
      <TimeFact name="Revoked" ms={key.revoked_ms} />
    </dl>
  )
}

function Edit({ of, onDone }: { of: KeyDocument; onDone(): void }) {
  const key = useOpened(of)
  const form = useForm(toValues(key), async (values) => {
    await editKey(key, values)
    tell('Changed. It holds from the next request on.')
    onDone()
  })
  return (
    <EditForm of={form} onCancel={onDone}>
      <KeyFields
        form={form}
        kept={key.expires_ms === null ? null : `As before: ${toDay(key.expires_ms, nowMs.value)}`}
        ceilings={isMember() ? key.ceilings : {}}
      />
    </EditForm>
  )
}
