/** Invites somebody: a name and a role, then the code for them. */
import { useState } from 'preact/hooks'
import { toHref } from '../address/address.ts'
import { FormPage } from '../shell/form-page.tsx'
import { Page } from '../shell/page.tsx'
import { ButtonLink } from '../ui/button.tsx'
import { TextField, useForm } from '../ui/form.tsx'
import { announce } from '../ui/notice.tsx'
import { Coded } from './coded.tsx'
import { invite, NEW_PERSON } from './data.ts'
import { PersonFields } from './fields.tsx'

export function InvitePage() {
  const [invited, setInvited] = useState<Awaited<ReturnType<typeof invite>> | null>(null)
  const form = useForm({ ...NEW_PERSON, name: '' }, async (values) => {
    setInvited(await invite(values))
    announce('The invitation is made. Copy it now: it is shown once.')
    scrollTo(0, 0)
  })
  if (invited) {
    return (
      <Page
        title={`Invitation for ${invited.name}`}
        above={<a href={toHref('/people')}>People</a>}
        actions={<ButtonLink href={toHref(`/people?person=${invited.id}`)}>I have kept it</ButtonLink>}
      >
        <Coded name={invited.name} code={invited.code} expiresMs={invited.code_expires_ms} />
      </Page>
    )
  }
  return (
    <FormPage title="Invite somebody" list={['/people', 'People']} form={form} submit="Invite">
      <TextField
        of={form}
        name="name"
        label="Name"
        hint="What they sign in as, such as their address of mail. No mail is sent."
        autoFocus
      />
      <PersonFields form={form} />
    </FormPage>
  )
}
